"""From a wish and its seats to what each node runs: command lines, environment, files. Pure.

Whatever a person wrote becomes one element of an argument list, never part of a shell line. What only the node knows
stays a placeholder (see `Launch`), so a preview before submit is made by the very same function.

torchrun: `--max-restarts=0` because restarts in place reuse dead addresses (the master makes the next attempt instead);
`is_host=true` on exactly one node because the automatic guess compares host names, which may repeat; the rendezvous id
is the attempt's own; `--local-addr` binds to the node's own address. The rendezvous numbers its members by their
addresses as text, so seats must come in that order (the scheduler gives them so); `--node-rank` would be ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from jobs.spec import Framework, JobSpec, RecipeCode, ScriptCode, Strategy
from nodes.messages import DeviceSeat, InputFile, Launch

RANK_SHIM = "${ROOT}/jobs/training/lib/rank_exec.py"
TRAINING_MAIN = "jobs.training.main"
INSPECT_MAIN = "datasets.formats.inspect_main"
SCRIPT_PATH = "${ROOT}/jobs/training/lib"  # holds only trainyard and the shim
RENDEZVOUS_SECONDS = 60  # all nodes are there and have met before GO
INSPECTION_SECONDS = 1800.0
INSPECTION_DISK_BYTES = 2 * 2**30
MASKED = "••••••"


@dataclass(frozen=True)
class Place:
    """One node's part of a gang, by node rank."""

    token: UUID
    devices: tuple[DeviceSeat, ...] = ()


@dataclass(frozen=True)
class Material:
    """What is fetched before the start. `dataset` goes into spec.json: label, options, what is known of the columns."""

    data: InputFile | None = None
    dataset: Mapping[str, Any] | None = None
    bundle: InputFile | None = None
    checkpoint: tuple[InputFile, ...] = ()


@dataclass(frozen=True)
class Order:
    """What an attempt adds to the wish."""

    job_id: int
    attempt: int
    material: Material = field(default_factory=Material)
    secrets: Mapping[str, str] = field(default_factory=dict)
    limit_seconds: float | None = None
    lease_seconds: float = 900.0
    is_preview: bool = False


def compose(spec: JobSpec, places: Sequence[Place], order: Order) -> list[Launch]:
    """One launch per node, in rank order. ValueError when the places are not those the wish asks for."""
    if len(places) != spec.worker.nodes:
        raise ValueError(f"{len(places)} places for {spec.worker.nodes} nodes")
    return [_launch(spec, node_rank, place, order) for node_rank, place in enumerate(places)]


def preview(spec: JobSpec, *, secret_names: Sequence[str] = ()) -> list[Launch]:
    """The same launches with placeholders for what is not known before the start."""
    devices = tuple(
        DeviceSeat(index=index, uuid="", kind=spec.worker.device_kind or "")
        for index in range(spec.worker.devices_per_node)
    )
    places = [Place(UUID(int=0), devices) for _ in range(spec.worker.nodes)]
    secrets = dict.fromkeys(secret_names, MASKED)
    return compose(spec, places, Order(job_id=0, attempt=1, secrets=secrets, is_preview=True))


def compose_inspection(place: Place, order: Order, *, file_name: str, options: Mapping[str, Any]) -> Launch:
    """Looking at a dataset's bytes: a launch without devices. Foreign bytes are read in the sandbox, like own code."""
    return Launch(
        token=place.token,
        job_id=order.job_id,
        job_name=f"inspect {file_name}"[:200],
        attempt=order.attempt,
        node_rank=0,
        node_count=1,
        ranks=[0],
        argv=["${PYTHON}", RANK_SHIM, "-m", INSPECT_MAIN],
        env={**_alone(), "PYTHONPATH": "${ROOT}"},
        inputs=[order.material.data] if order.material.data else [],
        disk_bytes=INSPECTION_DISK_BYTES,
        lease_seconds=order.lease_seconds,
        limit_seconds=INSPECTION_SECONDS,
        spec={"kind": "inspect", "file_name": file_name, "options": dict(options)},
    )


def checkpoint_inputs(files: Sequence[InputFile], *, step: int, saved_at: float, metrics: Mapping[str, float]) -> tuple[
    InputFile, ...
]:  # fmt: skip
    """A registered checkpoint below inputs/checkpoint, with the manifest the training code checks it against."""
    manifest = {
        "step": step,
        "saved_at": saved_at,
        "files": [{"path": file.path, "sha256": file.sha256, "size_bytes": file.size_bytes} for file in files],
        "metrics": dict(metrics),
    }
    placed = [file.model_copy(update={"path": f"inputs/checkpoint/{file.path}"}) for file in files]
    return (InputFile(path="inputs/checkpoint/manifest.json", text=json.dumps(manifest)), *placed)


def ranks_of(spec: JobSpec, node_rank: int) -> list[int]:
    """Global ranks on one node. A plain command is one process per node, whatever its devices."""
    if spec.framework is Framework.COMMAND:
        return [node_rank]
    count = spec.worker.processes_per_node
    return list(range(node_rank * count, (node_rank + 1) * count))


def _launch(spec: JobSpec, node_rank: int, place: Place, order: Order) -> Launch:
    is_recipe = isinstance(spec.code, RecipeCode)
    return Launch(
        token=place.token,
        job_id=order.job_id,
        job_name=spec.name,
        attempt=order.attempt,
        node_rank=node_rank,
        node_count=spec.worker.nodes,
        ranks=ranks_of(spec, node_rank),
        argv=_argv(spec, node_rank, order),
        env=_environment(spec, node_rank),
        secrets=dict(order.secrets),
        inputs=_inputs(spec, order.material),
        devices=list(place.devices),
        cpus=spec.worker.cpus_per_node,
        memory_bytes=spec.worker.memory_bytes_per_node,
        disk_bytes=spec.disk_bytes,
        # A recipe is our own code, but a person's variables can make any program load what a checkpoint brought.
        sandboxed=not is_recipe or bool(spec.env or order.secrets),
        lease_seconds=order.lease_seconds,
        grace_seconds=float(spec.grace_seconds),
        limit_seconds=order.limit_seconds,
        spec=_spec_file(spec, order),
        is_preview=order.is_preview,
    )


def _argv(spec: JobSpec, node_rank: int, order: Order) -> list[str]:
    program = [RANK_SHIM, *_program(spec)]
    if _has_launcher(spec):
        return [*_torchrun(spec, node_rank, order), *program]
    return ["${PYTHON}", *program]


def _has_launcher(spec: JobSpec) -> bool:
    return spec.framework is Framework.PYTORCH and spec.strategy is not Strategy.SINGLE


def _torchrun(spec: JobSpec, node_rank: int, order: Order) -> list[str]:
    host = "true" if node_rank == 0 else "false"
    return [
        "${PYTHON}",
        "-m",
        "torch.distributed.run",
        f"--nnodes={spec.worker.nodes}",
        f"--nproc-per-node={spec.worker.processes_per_node}",
        "--max-restarts=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}",
        f"--rdzv-id=job-{order.job_id}-attempt-{order.attempt}",
        f"--rdzv-conf=is_host={host},join_timeout={RENDEZVOUS_SECONDS}",
        "--local-addr=${ADDRESS}",
    ]


def _program(spec: JobSpec) -> list[str]:
    """What the shim runs: a module of ours, a Python script, or any other program of the person's."""
    code = spec.code
    if isinstance(code, RecipeCode):
        return ["-m", TRAINING_MAIN]
    suffix = PurePosixPath(code.entry).suffix
    if suffix == ".py":
        return [_relative(code.entry), *code.args]
    runner = ["/bin/sh"] if suffix == ".sh" else []
    return ["--exec", *runner, f"./{PurePosixPath(code.entry)}", *code.args]


def _relative(entry: str) -> str:
    """A script whose name begins with a dash would be read as an option."""
    return f"./{entry}" if entry.startswith("-") else entry


def _environment(spec: JobSpec, node_rank: int) -> dict[str, str]:
    """The person's own names first: the portal's win (those that would clash were refused at submit)."""
    own = {"OMP_NUM_THREADS": "1", **spec.env}
    path = f"${{ROOT}}:{SCRIPT_PATH}" if isinstance(spec.code, RecipeCode) else SCRIPT_PATH
    fixed = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    if _has_launcher(spec):
        return {**own, **fixed}
    if spec.framework is Framework.COMMAND:
        return {**own, **_member(node_rank, spec.worker.nodes), **fixed}
    return {**own, **_alone(), **fixed}


def _alone() -> dict[str, str]:
    return _member(0, 1)


def _member(rank: int, world_size: int) -> dict[str, str]:
    """What torchrun would have set, for processes it does not start."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": str(rank),
        "MASTER_ADDR": "${MASTER_ADDR}",
        "MASTER_PORT": "${MASTER_PORT}",
    }


def _inputs(spec: JobSpec, material: Material) -> list[InputFile]:
    inputs = [material.data] if material.data else []
    if isinstance(spec.code, ScriptCode) and spec.code.script is not None:
        inputs.append(InputFile(path=f"code/{spec.code.entry}", text=spec.code.script))
    if material.bundle is not None:
        inputs.append(material.bundle)
    return [*inputs, *material.checkpoint]


def _spec_file(spec: JobSpec, order: Order) -> dict[str, Any]:
    """spec.json: the wish without the script's text, and what the training code must know of the dataset."""
    wish: dict[str, Any] = spec.model_dump(mode="json")
    wish["code"].pop("script", None)
    return {**wish, "dataset": dict(order.material.dataset)} if order.material.dataset is not None else wish
