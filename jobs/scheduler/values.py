"""What the policy sees and what it answers: frozen values, no database. Devices count in thousandths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

WHOLE = 1000  # thousandths of one device
HOLD_AFTER_SECONDS = 600.0  # the first in line, blocked this long, has devices held for it


@dataclass(frozen=True)
class DeviceView:
    id: int
    index: int
    kind: str
    free: int = WHOLE  # thousandths


class Closed(StrEnum):
    """Why a node takes nothing new."""

    CORDONED = "cordoned"
    DRAINING = "draining"
    LATE = "late"
    LOST = "lost"
    CONFLICT = "conflict"
    NEW = "new"


@dataclass(frozen=True)
class NodeView:
    """`devices` are the healthy ones. A total of 0 CPUs or bytes means unknown: then it is not counted."""

    id: str
    name: str
    devices: tuple[DeviceView, ...] = ()
    cpus: int = 0
    cpus_used: int = 0
    memory_bytes: int = 0
    memory_used_bytes: int = 0
    launches: int = 0  # placements that are not over
    address: str = ""
    closed: Closed | None = None

    @property
    def cpus_free(self) -> int:
        return self.cpus - self.cpus_used

    @property
    def memory_free_bytes(self) -> int:
        return self.memory_bytes - self.memory_used_bytes


@dataclass(frozen=True)
class Need:
    """`nodes` × `devices_per_node`, all of one kind; `kind` None takes any."""

    nodes: int = 1
    devices_per_node: int = 1
    kind: str | None = None
    cpus: int = 0
    memory_bytes: int = 0

    @property
    def device_count(self) -> int:
        return self.nodes * self.devices_per_node


@dataclass(frozen=True)
class WaitingJob:
    id: int
    owner: int
    team: int | None
    need: Need
    queued_at: float  # seconds on the snapshot's clock
    priority: int = 0
    avoid: frozenset[str] = frozenset()  # node ids, used only if no other will do
    is_counted: bool = True  # the portal's own work is outside quotas and positions


@dataclass(frozen=True)
class RunningJob:
    id: int
    owner: int
    team: int | None
    device_count: int
    is_counted: bool = True


Account = tuple[str, int]  # ('person', user id) or ('team', team id)


@dataclass(frozen=True)
class Ceiling:
    """None means unlimited."""

    devices: int | None = None
    jobs: int | None = None


@dataclass(frozen=True)
class Snapshot:
    now: float
    nodes: tuple[NodeView, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    running: tuple[RunningJob, ...] = ()
    ceilings: Mapping[Account, Ceiling] = field(default_factory=lambda: MappingProxyType({}))
    hold_after_seconds: float = HOLD_AFTER_SECONDS


class Why(StrEnum):
    """The dominant reason why a job waits."""

    NO_NODES = "no_nodes"  # nobody has joined, or none that is alive
    NO_SUCH_KIND = "no_such_kind"
    NEVER_FITS = "never_fits"  # the cluster has shrunk: not even empty could it hold the job
    NODES_CLOSED = "nodes_closed"  # it would fit if cordoned, late or lost nodes were open
    QUOTA_DEVICES = "quota_devices"
    QUOTA_JOBS = "quota_jobs"
    CPU_OR_MEMORY = "cpu_or_memory"
    FRAGMENTED = "fragmented"  # enough are free, but not so that each node has its part
    FULL = "full"
    HELD = "held"  # what it would need is held for the first in line


@dataclass(frozen=True)
class Explanation:
    """Numbers and names for one sentence; which of them matter depends on `why`."""

    job: int
    why: Why
    position: int | None
    nodes_wanted: int = 1
    devices_wanted: int = 0  # per node
    kind: str = ""
    free: int = 0  # whole devices, of the wanted kind
    total: int = 0
    nodes_fitting: int = 0
    largest: int = 0  # devices of the best node
    limit: int = 0
    used: int = 0
    account: Account | None = None
    held_for: int | None = None
    names: tuple[str, ...] = ()
    closed: Closed | None = None


@dataclass(frozen=True)
class NodeSeats:
    node: str
    devices: tuple[int, ...]  # device ids, by index


@dataclass(frozen=True)
class Start:
    job: int
    seats: tuple[NodeSeats, ...]  # by node rank


@dataclass(frozen=True)
class Plan:
    starts: tuple[Start, ...] = ()
    explanations: tuple[Explanation, ...] = ()

    def start_of(self, job: int) -> Start | None:
        return next((start for start in self.starts if start.job == job), None)

    def explanation_of(self, job: int) -> Explanation | None:
        return next((item for item in self.explanations if item.job == job), None)
