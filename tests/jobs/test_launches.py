"""Exact command lines: what is shown before submit is what each node runs."""

from __future__ import annotations

import json
import subprocess
import sys
from uuid import UUID

import pytest

from jobs.launches import Material, Order, Place, checkpoint_inputs, compose, compose_inspection, preview
from jobs.spec import JobSpec
from nodes.messages import DeviceSeat, InputFile

SHIM = "${ROOT}/jobs/training/lib/rank_exec.py"
TOKENS = [UUID(int=i + 1) for i in range(4)]
DATA = InputFile(path="inputs/data", url="/objects/x", sha256="0" * 64, size_bytes=5)
ARGS = ["--name", "x; touch /tmp/CFG_INJECTED", "$(touch /tmp/CFG_INJECTED)", "`id`", "a b", "*", "--", "-h"]


def recipe(**more) -> JobSpec:
    base = {
        "name": "digits",
        "strategy": "ddp",
        "roles": [{"nodes": 2, "devices_per_node": 2}],
        "data": {"version_id": 1, "label": "label"},
        "stop": {"epochs": 3},
    }
    return JobSpec.model_validate({**base, **more})


def script(**more) -> JobSpec:
    code = {"kind": "script", "script": "print(1)", **more.pop("code", {})}
    return JobSpec.model_validate({"name": "own", "code": code, **more})


def places(count: int) -> list[Place]:
    seat = DeviceSeat(index=0, uuid="cpu-0", kind="cpu")
    return [Place(TOKENS[i], (seat,)) for i in range(count)]


def test_recipe_on_two_nodes_under_torchrun():
    launches = compose(recipe(), places(2), Order(7, 3, Material(data=DATA, dataset={"label": "label"})))
    common = ["${PYTHON}", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2"]
    meeting = ["--max-restarts=0", "--rdzv-backend=c10d", "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}"]
    program = ["--local-addr=${ADDRESS}", SHIM, "-m", "jobs.training.main"]
    for rank, host in ((0, "true"), (1, "false")):
        ident = ["--rdzv-id=job-7-attempt-3", f"--rdzv-conf=is_host={host},join_timeout=60"]
        assert launches[rank].argv == [*common, *meeting, *ident, *program]
    assert [launch.ranks for launch in launches] == [[0, 1], [2, 3]]
    assert [launch.token for launch in launches] == TOKENS[:2]
    assert launches[0].env == {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": "${ROOT}:${ROOT}/jobs/training/lib",
    }
    assert launches[0].inputs == [DATA]
    assert launches[0].spec["dataset"] == {"label": "label"}
    assert not launches[0].sandboxed


def test_a_recipe_with_a_persons_variables_runs_like_own_code():
    """PYTHONPYCACHEPREFIX, OPENSSL_CONF and the like make Python itself load files, say of a checkpoint."""
    recipe_ = recipe(env={"OPENSSL_CONF": "${FOLDER}/inputs/checkpoint/x.cnf"})
    assert all(launch.sandboxed for launch in compose(recipe_, places(recipe_.worker.nodes), Order(1, 1)))
    plain = recipe()
    secret = Order(1, 1, secrets={"OPENSSL_CONF": "x"})
    assert all(launch.sandboxed for launch in compose(plain, places(plain.worker.nodes), secret))


def test_single_script_runs_without_torchrun():
    (launch,) = compose(script(code={"args": ARGS}, env={"MY": "1"}), places(1), Order(1, 1))
    assert launch.argv == ["${PYTHON}", SHIM, "main.py", *ARGS]
    assert launch.env == {
        "OMP_NUM_THREADS": "1",
        "MY": "1",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "0",
        "MASTER_ADDR": "${MASTER_ADDR}",
        "MASTER_PORT": "${MASTER_PORT}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": "${ROOT}/jobs/training/lib",
    }
    assert launch.inputs == [InputFile(path="code/main.py", text="print(1)")]
    assert "script" not in launch.spec["code"]
    assert launch.sandboxed


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ("src/train.py", ["src/train.py", "-x"]),
        ("-c.py", ["./-c.py", "-x"]),
        ("go.sh", ["--exec", "/bin/sh", "./go.sh", "-x"]),
        ("bin/go", ["--exec", "./bin/go", "-x"]),
    ],
)
def test_entry_decides_the_program(entry, line):
    (launch,) = compose(script(code={"entry": entry, "args": ["-x"]}), places(1), Order(1, 1))
    assert launch.argv == ["${PYTHON}", SHIM, *line]


def test_command_is_one_process_per_node():
    spec = script(framework="command", strategy="ddp", roles=[{"nodes": 2, "devices_per_node": 2}])
    launches = compose(spec, places(2), Order(1, 1))
    assert [launch.argv for launch in launches] == [["${PYTHON}", SHIM, "main.py"]] * 2
    assert [(launch.ranks, launch.env["RANK"], launch.env["WORLD_SIZE"]) for launch in launches] == [
        ([0], "0", "2"),
        ([1], "1", "2"),
    ]


def test_preview_is_the_same_with_placeholders():
    shown = preview(recipe(), secret_names=["TOKEN"])
    real = compose(recipe(), places(2), Order(0, 1))
    assert [launch.argv for launch in shown] == [launch.argv for launch in real]
    assert [launch.env for launch in shown] == [launch.env for launch in real]
    assert all(launch.is_preview for launch in shown)
    assert "TOKEN" in shown[0].secrets


def test_bundle_and_checkpoint_are_inputs():
    bundle = InputFile(path="code", url="/objects/b", sha256="1" * 64, unpack_zip=True)
    weights = InputFile(path="model.pt", url="/objects/c", sha256="2" * 64, size_bytes=9)
    checkpoint = checkpoint_inputs([weights], step=40, saved_at=1.5, metrics={"loss": 0.5})
    spec = JobSpec.model_validate({"name": "x", "code": {"kind": "script", "bundle_sha256": "1" * 64}})
    (launch,) = compose(spec, places(1), Order(1, 2, Material(bundle=bundle, checkpoint=checkpoint)))
    assert [file.path for file in launch.inputs] == [
        "code",
        "inputs/checkpoint/manifest.json",
        "inputs/checkpoint/model.pt",
    ]
    manifest = json.loads(launch.inputs[1].text)
    assert manifest["step"] == 40
    assert manifest["files"] == [{"path": "model.pt", "sha256": "2" * 64, "size_bytes": 9}]


def test_inspection_launch():
    launch = compose_inspection(
        places(1)[0], Order(9, 1, Material(data=DATA)), file_name="a.csv", options={"header": True}
    )
    assert launch.argv == ["${PYTHON}", SHIM, "-m", "datasets.formats.inspect_main"]
    assert launch.env["PYTHONPATH"] == "${ROOT}"
    assert launch.spec == {"kind": "inspect", "file_name": "a.csv", "options": {"header": True}}
    assert launch.inputs == [DATA]


def test_wrong_number_of_places_is_refused():
    with pytest.raises(ValueError, match="1 places for 2 nodes"):
        compose(recipe(), places(1), Order(1, 1))


def test_torchrun_hands_every_argument_on_unchanged():
    """torchrun's own parser reads the line: nothing of the person's arguments is taken for an option of its."""
    spec = script(strategy="ddp", roles=[{"devices_per_node": 2}], code={"args": ARGS})
    (launch,) = compose(spec, places(1), Order(1, 1))
    code = (
        "import json, sys; from torch.distributed.run import parse_args; a = parse_args(sys.argv[1:]);"
        "print(json.dumps([a.training_script, a.training_script_args, a.rdzv_conf, a.local_addr, a.max_restarts]))"
    )
    line = [sys.executable, "-c", code, *launch.argv[3:]]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    script_, args, conf, address, restarts = json.loads(done.stdout)
    assert script_ == SHIM
    assert args == ["main.py", *ARGS]
    assert (conf, address, restarts) == ("is_host=true,join_timeout=60", "${ADDRESS}", 0)
