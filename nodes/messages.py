"""The messages between a node and the portal, and the launch a node is asked to run. Pure.

`Exchange` goes up and `Reply` comes down over one small HTTP request (control). `Stream` batches (logs, points) and
checkpoint announcements travel beside it (data), so control never waits behind data. Bytes move by signed addresses.

Endpoints, all with `Authorization: Node <token>` and below /api/v1/agent/:

    POST exchange      Exchange            -> Reply
    POST streams       framed batches      -> StreamAnswer       (framing: `pack_batches` / `unpack_batches`)
    POST checkpoints   CheckpointOffer     -> CheckpointAnswer   (offer, put what is missing, offer again)
    POST join          JoinRequest         -> JoinReply          (no token yet: the one-time code is the credential)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

PROTOCOL = 1
MAX_STREAM_BODY = 1 << 20
MAX_RESULT_BYTES = 256 * 1024
LAUNCHER_RANK = -1  # the stream of what the launcher itself prints

# One point on the wire and in stored batches: index into the batch's names, then step, time, value; little-endian.
POINT = struct.Struct("<Iddd")
POINT_DTYPE = [("name", "<u4"), ("step", "<f8"), ("time", "<f8"), ("value", "<f8")]


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, ser_json_inf_nan="constants")


# --- joining -----------------------------------------------------------------------------------------------------


class JoinRequest(_Message):
    code: str = Field(max_length=200)
    node_id: UUID
    hostname: str = Field(max_length=255)
    address: str = Field(max_length=255)


class BrokerLogin(_Message):
    """A login that reaches only this node's queue; None while the broker is down or has no access lists."""

    url: str
    queue: str


class JoinReply(_Message):
    node_id: UUID
    name: str
    token: str
    broker: BrokerLogin | None = None


# --- the launch: everything a node needs to run its part of an attempt ------------------------------------------------


class DeviceSeat(_Message):
    index: int
    uuid: str
    kind: str
    thousandths: int = 1000


class InputFile(_Message):
    """A file below the launch's folder, given as text or as an address to fetch and check.

    `path` is relative, POSIX, checked by the agent. `url` is relative to the portal's address.
    """

    path: str = Field(max_length=1024)
    text: str | None = None
    url: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    unpack_zip: bool = False  # `path` is then the folder that receives the members


class Launch(_Message):
    """One placement's work on its node.

    `argv` and `env` may hold `${PYTHON}`, `${ROOT}` (the project), `${FOLDER}` (the launch's folder), `${ADDRESS}`
    (this node), and, filled at GO from the peers' facts, `${MASTER_ADDR}` and `${MASTER_PORT}` (the first port of the
    node with node_rank 0). Argument lists only: nothing is ever given to a shell.
    """

    token: UUID
    job_id: int
    job_name: str
    attempt: int
    node_rank: int
    node_count: int
    ranks: list[int]
    argv: list[str]
    env: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)  # environment too: as they are, masked in every stream
    inputs: list[InputFile] = Field(default_factory=list)
    devices: list[DeviceSeat] = Field(default_factory=list)
    cpus: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 10 * 2**30
    ports: int = 1
    sandboxed: bool = True  # own code runs as another user and in a sandbox, as far as the node's level allows
    lease_seconds: float = 900.0
    grace_seconds: float = 30.0
    limit_seconds: float | None = None
    spec: dict[str, Any] = Field(default_factory=dict)  # written as spec.json for the training code
    is_preview: bool = False


class LaunchFacts(_Message):
    """What only the node knows, told with READY and given to every peer with GO."""

    address: str
    ports: list[int] = Field(default_factory=list)
    launcher_lines: list[str] = Field(default_factory=list)


# --- up: the exchange ---------------------------------------------------------------------------------------------


class Phase(StrEnum):
    ACCEPTED = "accepted"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"


class EndCause(StrEnum):
    EXITED = "exited"  # the launcher ended by itself: see exit_code
    STOPPED = "stopped"  # because the portal said so
    TIME_LIMIT = "time_limit"
    DISK_QUOTA = "disk_quota"
    OUT_OF_MEMORY = "out_of_memory"
    LEASE_EXPIRED = "lease_expired"
    INPUT_UNAVAILABLE = "input_unavailable"
    BAD_INPUT = "bad_input"  # it came as it was stored, and no node can use it
    LAUNCH_FAILED = "launch_failed"
    PEER_UNREACHABLE = "peer_unreachable"
    SUPERVISOR_GONE = "supervisor_gone"
    NEVER_STARTED = "never_started"  # stopped before it began, or its tombstone came first


class ExitReport(_Message):
    cause: EndCause
    exit_code: int | None = None
    signal: int | None = None
    failed_rank: int | None = None  # whose exit code or signal it is, where a rank failed by itself
    message: str = ""  # one sentence for a person
    result: dict[str, Any] | None = None  # `result.json` of the folder, when the launch wrote one
    is_complete: bool = False  # the completion marker of every rank is there: decides over the exit code
    processes_gone: bool = True
    streams: dict[str, int] = Field(default_factory=dict)  # final length of each stream, key "rank/kind"


class PlacementReport(_Message):
    token: UUID
    phase: Phase
    facts: LaunchFacts | None = None
    exit: ExitReport | None = None
    note: str = ""  # what it is doing now, for the page: 'fetching inputs 40 %'
    dropped_bytes: int = 0


class DeviceReport(_Message):
    index: int
    uuid: str
    kind: str  # 'cpu', 'A100-SXM4-80GB', ...
    memory_bytes: int = 0
    is_healthy: bool = True
    trouble: str = ""
    utilisation: float | None = None  # 0..1
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None


class UsageSample(_Message):
    age_seconds: float  # before this exchange, by the node's own clock: clocks are never compared
    cpu: float  # 0..1 over all cores
    memory_used_bytes: int
    devices: list[float | None] = Field(default_factory=list)  # utilisation by device index


class NodeFacts(_Message):
    """Told once per session."""

    cpu_count: int
    memory_bytes: int
    shm_bytes: int = 0
    disk_free_bytes: int = 0
    python: str = ""
    agent_version: str = ""
    sandbox: Literal["none", "uid", "bubblewrap"] = "none"
    sandbox_note: str = ""  # what the level promises and what not, and why it is not higher
    kill: Literal["cgroup2", "pidns", "group"] = "group"
    labels: dict[str, str] = Field(default_factory=dict)


class Exchange(_Message):
    protocol: int = PROTOCOL
    node_id: UUID
    boot_id: str = Field(max_length=64)
    session: UUID
    counter: int = Field(ge=0)
    sent_at: float
    hostname: str = Field(max_length=255)
    address: str = Field(max_length=255)
    facts: NodeFacts | None = None
    devices: list[DeviceReport] = Field(default_factory=list, max_length=1024)
    usage: list[UsageSample] = Field(default_factory=list, max_length=256)
    placements: list[PlacementReport] = Field(default_factory=list, max_length=4096)
    agent_memory_bytes: int = 0


# --- down: the reply ------------------------------------------------------------------------------------------------


class StopOrder(_Message):
    token: UUID
    reason: str
    grace_seconds: float = 30.0


class Go(_Message):
    token: UUID
    peers: list[LaunchFacts]  # by node_rank


class Reply(_Message):
    """The node's whole desired state. Absence means nothing: a stop is said."""

    next_after_seconds: float = 5.0
    ship_every_seconds: float = 0.1  # how long points and log lines may gather on the node before they are sent
    launches: list[Launch] = Field(default_factory=list)  # repeated until reported ACCEPTED
    gos: list[Go] = Field(default_factory=list)  # repeated until reported RUNNING
    stops: list[StopOrder] = Field(default_factory=list)  # repeated until reported ENDED
    checkpoints: list[UUID] = Field(default_factory=list)  # ask these launches for a checkpoint now
    closed: list[UUID] = Field(default_factory=list)  # end acknowledged, streams complete: the folder may go
    quarantined: list[UUID] = Field(default_factory=list)  # tokens the portal does not know: keep, start nothing
    resend_facts: bool = False
    conflict: str | None = None
    broker: BrokerLogin | None = None  # told once per session


# --- beside it: streams ---------------------------------------------------------------------------------------------


class StreamHead(_Message):
    """Header of one framed batch; `offset` and lengths count bytes of the node's own file.

    kind 'log': the payload is the file's bytes from `offset`. kind 'metrics': the payload is packed POINTs made from
    the whole lines between `offset` and `offset + source_bytes`; `names` gives the texts its name indexes mean.
    `gap` bytes before `offset` were dropped on the node (flood, full spool) and are shown as a gap.
    """

    token: UUID
    rank: int = Field(ge=LAUNCHER_RANK, le=100_000)
    kind: Literal["log", "metrics"]
    offset: int = Field(ge=0)
    source_bytes: int = Field(ge=0)
    gap: int = Field(0, ge=0)
    names: list[str] = Field(default_factory=list, max_length=5000)
    bad_lines: int = Field(0, ge=0)
    bad_samples: list[str] = Field(default_factory=list, max_length=5)


class StreamAck(_Message):
    token: UUID
    rank: int
    kind: Literal["log", "metrics"]
    acked: int  # rules, even backwards
    problem: str = ""


class StreamAnswer(_Message):
    acks: list[StreamAck] = Field(default_factory=list)


@dataclass(frozen=True)
class Batch:
    head: StreamHead
    payload: bytes


class BadFraming(ValueError):
    """A streams body that does not follow the framing."""


_LENGTHS = struct.Struct("<II")


def pack_batches(batches: Iterable[Batch]) -> bytes:
    """Frame = two little-endian uint32 (header bytes, payload bytes), the header as JSON, the payload."""
    parts: list[bytes] = []
    for batch in batches:
        head = batch.head.model_dump_json().encode()
        parts += [_LENGTHS.pack(len(head), len(batch.payload)), head, batch.payload]
    return b"".join(parts)


def unpack_batches(body: bytes) -> Iterator[Batch]:
    at = 0
    while at < len(body):
        if at + _LENGTHS.size > len(body):
            raise BadFraming("cut inside a frame's lengths")
        head_bytes, payload_bytes = _LENGTHS.unpack_from(body, at)
        at += _LENGTHS.size
        end = at + head_bytes + payload_bytes
        if end > len(body):
            raise BadFraming("cut inside a frame")
        try:
            head = StreamHead.model_validate(json.loads(body[at : at + head_bytes]))
        except ValueError as error:
            raise BadFraming(f"bad header: {error}") from error
        yield Batch(head, body[at + head_bytes : end])
        at = end


# --- beside it: checkpoints -----------------------------------------------------------------------------------------


class CheckpointFile(_Message):
    path: str = Field(max_length=512)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0)


class CheckpointOffer(_Message):
    token: UUID
    step: int = Field(ge=0, lt=1 << 63)
    saved_at: float
    files: list[CheckpointFile] = Field(max_length=10_000)
    metrics: dict[str, float] = Field(default_factory=dict)


class CheckpointAnswer(_Message):
    """`is_registered` once every file is stored; else `missing` maps sha256 to the address to PUT it to."""

    is_registered: bool
    missing: dict[str, str] = Field(default_factory=dict)
    refused: str = ""  # superseded token, storage full: do not try again
