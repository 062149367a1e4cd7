"""What a script does over REST, with the waiting that stories need."""

from __future__ import annotations

import base64
import csv
import io
import uuid
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx

from tests.flows.rig import wait_for

ENDS = ("succeeded", "failed", "cancelled")
TUS = {"Tus-Resumable": "1.0.0"}


class Client:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        headers = {"Authorization": f"Token {token}"}
        retrying = httpx.HTTPTransport(retries=2)
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=30, transport=retrying)

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, **query: Any) -> Any:
        return self._read(self.http.get(path, params=query)).json()

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._read(self.http.post(path, json=body, headers=headers)).json()

    def _read(self, answer: httpx.Response) -> httpx.Response:
        assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
        return answer

    # --- jobs -------------------------------------------------------------------------------------------------------

    def submit(self, spec: dict[str, Any], **around: Any) -> int:
        return int(self.post("/jobs/", {"spec": spec, **around})["id"])

    def job(self, job: int) -> Any:
        return self.get(f"/jobs/{job}/")

    def wait_state(self, job: int, *states: str, seconds: float = 60) -> Any:
        def there() -> Any:
            found = self.job(job)
            assert found["state"] in states or found["state"] not in ENDS, f"{found['state']}: {found['reason_text']}"
            return found if found["state"] in states else None

        return wait_for(f"job {job} is {' or '.join(states)}", there, seconds)

    def wait_end(self, job: int, *, seconds: float = 90) -> Any:
        return self.wait_state(job, *ENDS, seconds=seconds)

    def events(self, job: int) -> list[dict[str, Any]]:
        return list(self.get(f"/jobs/{job}/events/", limit=500)["results"])

    def attempts(self, job: int) -> list[dict[str, Any]]:
        return list(self.get(f"/jobs/{job}/attempts/"))

    def node_of(self, job: int, node_rank: int = 0) -> str:
        """The name of the node that the newest attempt is on."""
        newest = max(self.attempts(job), key=lambda attempt: attempt["number"])
        return next(str(each["node_name"]) for each in newest["placements"] if each["node_rank"] == node_rank)

    def checkpoints(self, job: int) -> list[dict[str, Any]]:
        return list(self.get(f"/jobs/{job}/checkpoints/")["results"])

    def wait_checkpoint(self, job: int, *, seconds: float = 60) -> Any:
        return wait_for(f"a checkpoint of job {job}", lambda: self.checkpoints(job), seconds)[0]

    # --- what it left -----------------------------------------------------------------------------------------------

    def log(self, job: int, rank: int = 0, **query: Any) -> str:
        """The whole log as stored; '' while there is none."""
        answer = self.http.get(f"/jobs/{job}/logs/{rank}/download/", params=query)
        return "" if answer.status_code == 404 else self._read(answer).text

    def wait_log(self, job: int, text: str, rank: int = 0, *, seconds: float = 60) -> str:
        def there() -> str:
            log = self.log(job, rank)
            return log if text in log else ""

        return wait_for(f"'{text}' in the log of job {job}", there, seconds)

    def log_facts(self, job: int, rank: int = 0) -> Any:
        return next(each for each in self.get(f"/jobs/{job}/logs/") if each["rank"] == rank)

    def points(self, job: int, name: str) -> list[dict[str, str]]:
        answer = self._read(self.http.get(f"/jobs/{job}/series.csv", params={"name": name}))
        return list(csv.DictReader(io.StringIO(answer.text)))

    def wait_step(self, job: int, step: int, *, name: str = "loss", rank: int = 0, seconds: float = 90) -> None:
        def there() -> bool:
            pieces = self.get(f"/jobs/{job}/series/", name=name, rank=rank)["pieces"]
            return any(max(piece.get("step_max") or piece["step"], default=0) >= step for piece in pieces)

        wait_for(f"step {step} of job {job}", there, seconds)

    # --- data -------------------------------------------------------------------------------------------------------

    def upload(self, path: Path, name: str, *, piece_bytes: int = 32 * 1024) -> Any:
        """By tus, in pieces; the upload as it is when its version has been stored."""
        content = path.read_bytes()
        values = {"filename": path.name, "dataset_name": name}
        metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in values.items())
        headers = {**TUS, "Upload-Length": str(len(content)), "Upload-Metadata": metadata}
        created = self._read(self.http.post(f"{self.url}/uploads/", headers=headers))
        place = urljoin(self.url, created.headers["Location"])
        at = 0
        while at < len(content):
            headers = {**TUS, "Upload-Offset": str(at), "Content-Type": "application/offset+octet-stream"}
            answer = self.http.patch(place, content=content[at : at + piece_bytes], headers=headers)
            at = int(self._read(answer).headers["Upload-Offset"])
        upload = place.rstrip("/").rsplit("/", 1)[1]
        return wait_for("the upload is stored", lambda: self._stored(upload))

    def _stored(self, upload: str) -> Any:
        row = self.get(f"/uploads/{upload}/")
        assert row["state"] != "failed", row["problem"]
        return row if row["version"] else None

    def wait_inspected(self, version: int) -> Any:
        def settled() -> Any:
            row = self.get(f"/versions/{version}/")
            return row if row["state"] in ("ready", "question", "refused") else None

        return wait_for("the version is inspected", settled, 90)


def own(script: str, *, name: str = "story", nodes: int = 1, **fields: Any) -> dict[str, Any]:
    """The wish for an own script, a process per node without a launcher."""
    return {
        "name": f"{name} {uuid.uuid4().hex[:6]}",
        "framework": "command",
        "strategy": "ddp" if nodes > 1 else "single",
        "roles": [{"nodes": nodes, "devices_per_node": 1}],
        "code": {"kind": "script", "script": script},
        "grace_seconds": 5,
        **fields,
    }


def once_each(points: list[dict[str, str]], first: int, last: int, rank: int = 0) -> None:
    """Every step from first to last has exactly one point, and there are no others."""
    seen = Counter(int(float(point["step"])) for point in points if int(point["rank"]) == rank)
    missing = [step for step in range(first, last + 1) if step not in seen]
    strange = [step for step in seen if not first <= step <= last]
    twice = [step for step, count in seen.items() if count > 1]
    assert {"missing": missing, "strange": strange, "twice": twice} == {"missing": [], "strange": [], "twice": []}
