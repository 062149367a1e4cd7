"""`bin/demo`: the whole path on this machine, from a file to a curve. `--check` judges it and ends."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from portal.broker import write_private
from portal.demo_client import Browser, DemoError, Listener, Rest, once_each
from portal.processes import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "datasets" / "samples" / "digits.csv"
DATASET = "Handwritten digits"
TOKEN, TOKEN_LIFE = "demo", timedelta(hours=24)
STEPS, RANKS, LEAST_ACCURACY = 600, 2, 0.95
START_SECONDS, INSPECT_SECONDS, JOB_SECONDS = 120.0, 120.0, 300.0
ENDS = ("succeeded", "failed", "cancelled")


def say(text: str) -> None:
    print(f"[demo] {text}", flush=True)  # noqa: T201


@dataclass
class Run:
    """What one demo has come to so far; `facts` is what the facts file tells."""

    began_at: float
    facts_file: Path
    facts: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.timings[name] = time.monotonic() - began


class Portal:
    """`manage.py up` as a child; its lines are shown as they come."""

    def __init__(self, var: Path, arguments: list[str]) -> None:
        self._facts = var / "up.json"
        self._facts.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--slots", "1", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C comes to us; we pass it on once
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread only, and nothing but a system call
        )
        threading.Thread(target=self._show, daemon=True).start()

    def _show(self) -> None:
        for line in self._process.stdout or ():
            print(line, end="", flush=True)  # noqa: T201

    def wait_ready(self) -> str:
        _wait(self._facts.exists, START_SECONDS, "The portal did not start.", self._require_running)
        return str(json.loads(self._facts.read_text(encoding="utf-8"))["url"])

    def _require_running(self) -> None:
        if self._process.poll() is not None:
            raise DemoError("The portal ended; see the lines above.")

    def wait(self) -> int:
        return self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()


def main() -> int:
    arguments = _arguments()
    began_at = float(os.environ.get("DEMO_BEGAN_AT") or time.time())
    var = Path(tempfile.mkdtemp(prefix="trainyard-demo-")) if arguments.check else ROOT / "var"
    if not arguments.check and os.environ.get("TRAINYARD_VAR"):
        var = Path(os.environ["TRAINYARD_VAR"]).resolve()
    os.environ["TRAINYARD_VAR"] = str(var)
    run = Run(began_at, arguments.facts.resolve())
    run.timings["set-up"] = time.time() - began_at
    signal.signal(signal.SIGTERM, _interrupt)
    portal = None
    try:
        with run.timed("start"):
            portal = Portal(var, ["--port", str(arguments.port)] if arguments.port else [])
            run.facts["url"] = portal.wait_ready()
        code = _walk(run, is_check=arguments.check)
        if not arguments.check:
            portal.wait()
        return code
    except KeyboardInterrupt:
        return 130 if arguments.check else 0
    except DemoError as error:
        say(f"failed: {error}")
        return 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave processes
        if portal is not None:
            portal.stop()
        if arguments.check:
            _clear(var)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/demo", description=__doc__)
    parser.add_argument("--check", action="store_true", help="in a temporary folder, wait, judge, print timings, end")
    parser.add_argument("--facts", type=Path, default=ROOT / "var" / "demo.json", help="where to note what was made")
    parser.add_argument("--port", type=int, help="of the web process; otherwise a free one")
    return parser.parse_args()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _clear(var: Path) -> None:
    shutil.rmtree(var, ignore_errors=True)


def _walk(run: Run, *, is_check: bool) -> int:
    run.facts["users"], run.facts["token"] = make_people()
    password = run.facts["users"]["researcher"]
    url = run.facts["url"]
    say(f"signing in as researcher and uploading {SAMPLE.name}")
    browser, rest = Browser(url, "researcher", password), Rest(url, run.facts["token"])
    version = _load_dataset(browser, rest)
    run.facts["dataset"] = version["dataset"]
    say("submitting a job: 2 nodes, one process each, ddp")
    submitted_at = time.time()
    job = rest.post("/jobs/", {"spec": _spec(version["id"])})
    run.facts["job"] = job["id"]
    run.facts_file.parent.mkdir(parents=True, exist_ok=True)
    write_private(run.facts_file, json.dumps(run.facts, indent=2) + "\n")
    listener = Listener(browser, job["id"])
    listener.start()
    if not is_check:
        _introduce(run)
    job = _follow(rest, job["id"])
    return _judge(run, rest, job, listener, submitted_at)


def make_people() -> tuple[dict[str, str], str]:
    """An admin and a researcher: their passwords of this run by name, and the researcher's token of this run."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    from django.db import connections
    from django.utils import timezone

    from portal.accounts import services
    from portal.accounts.models import ApiToken, User

    passwords = {}
    for name, is_admin in (("admin", True), ("researcher", False)):
        password = secrets.token_urlsafe(12)
        user = User.objects.filter(username=name).first()
        if user is None:
            user = services.create_user(None, username=name, password=password, superuser=is_admin)
        else:
            services.set_password(None, user, password)
        passwords[name] = password
        for key in ApiToken.objects.filter(user=user, name=TOKEN).values_list("token_key", flat=True):
            services.revoke_token(user, key)
    researcher = User.objects.get(username="researcher")
    token = services.create_token(researcher, name=TOKEN, expires_at=timezone.now() + TOKEN_LIFE)[1]
    connections.close_all()
    return passwords, token


def _introduce(run: Run) -> None:
    say(f"open {run.facts['url']}/jobs/{run.facts['job']}/")
    for name, password in run.facts["users"].items():
        say(f"    sign in as {name:<10} with the password {password}   (new at every start, shown only here)")


def _load_dataset(browser: Browser, rest: Rest) -> dict[str, Any]:
    """The newest version of the sample, uploaded unless a former demo did; inspected, with its label column set."""
    known = [row for row in rest.get("/datasets/")["results"] if row["name"] == DATASET]
    if known and known[0]["newest_version"]:
        version_id = known[0]["newest_version"]["id"]
        say("the dataset is there already")
    else:
        upload = browser.upload(SAMPLE, DATASET)
        say("uploaded; waiting for its inspection on a node")

        def stored() -> Any:
            row = rest.get(f"/uploads/{upload}/")
            if row["state"] == "failed":
                raise DemoError(f"The upload failed: {row['problem']}")
            return row["version"]

        version_id = _wait(stored, INSPECT_SECONDS, "The upload did not become a dataset.")
    version = _inspected(rest, version_id)
    if version["options"].get("label") != "label":
        rest.patch(f"/versions/{version_id}/", {"options": {"label": "label"}})
        version = _inspected(rest, version_id)
    say(f"the dataset is ready: {version['facts'].get('rows')} rows")
    return version


def _inspected(rest: Rest, version_id: int) -> dict[str, Any]:
    def settled() -> Any:
        version = rest.get(f"/versions/{version_id}/")
        return version if version["state"] in ("ready", "question", "refused") else None

    version = _wait(settled, INSPECT_SECONDS, "The inspection did not end.")
    if version["state"] not in ("ready", "question"):
        raise DemoError(f"The dataset was not taken: {version['facts']}")
    return dict(version)


def _spec(version_id: int) -> dict[str, Any]:
    return {
        "name": "Digits on two nodes",
        "framework": "pytorch",
        "strategy": "ddp",
        "roles": [{"name": "worker", "nodes": RANKS, "devices_per_node": 1}],
        "code": {"kind": "recipe", "recipe": "tabular-classifier"},
        "data": {"version_id": version_id, "label": "label"},
        "parameters": {"learning_rate": 2e-3, "batch_size": 32},
        "stop": {"steps": STEPS},
    }


def _follow(rest: Rest, job_id: int) -> dict[str, Any]:
    told = ""

    def ended() -> Any:
        nonlocal told
        job = rest.get(f"/jobs/{job_id}/")
        line = f"job {job_id} is {job['state']}" + (f": {job['waiting_text']}" if job.get("waiting_text") else "")
        if line != told:
            told = line
            say(line)
        return job if job["state"] in ENDS else None

    return dict(_wait(ended, JOB_SECONDS, "The job did not end in time."))


def _judge(run: Run, rest: Rest, job: dict[str, Any], listener: Listener, submitted_at: float) -> int:
    if job["state"] != "succeeded":
        raise DemoError(f"The job ended as {job['state']}: {job.get('reason_text') or job.get('reason')}")
    losses = rest.points(job["id"], "loss")
    problems = once_each(losses, STEPS, RANKS)
    measured = rest.points(job["id"], "val_accuracy")
    accuracy = float(measured[-1]["value"]) if measured else 0.0
    if accuracy < LEAST_ACCURACY:
        problems.append(f"the validation accuracy is {accuracy:.4f}, less than {LEAST_ACCURACY}")
    if losses:
        run.timings["submit → first step"] = min(float(point["time"]) for point in losses) - submitted_at
    if listener.first_point_at is None:
        problems.append(f"no point came over the WebSocket {listener.trouble}".rstrip())
    else:
        run.timings["submit → first point in a WebSocket client"] = listener.first_point_at - submitted_at
    run.timings["total"] = time.time() - run.began_at
    say(f"validation accuracy {accuracy:.4f}; {len(losses)} points of the loss for {STEPS} steps on {RANKS} ranks")
    for name, seconds in run.timings.items():
        say(f"{name:<44} {seconds:8.2f} s")
    for problem in problems:
        say(f"failed: {problem}")
    return 1 if problems else 0


def _wait(condition: Callable[[], Any], seconds: float, complaint: str, each: Callable[[], None] | None = None) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if each is not None:
            each()
        if time.monotonic() > deadline:
            raise DemoError(f"{complaint} (waited {seconds:.0f} s)")
        time.sleep(0.2)
    return found


if __name__ == "__main__":
    sys.exit(main())
