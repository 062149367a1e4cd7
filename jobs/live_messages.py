"""Every message of the live sockets, in one place. Pure.

What to do with each: `job`, `checkpoints`, `usage`, `queue` replace what the page had; `events` are added by id;
`series` (binary) follows jobs/series/README.md; `log` lines replace from their first offset on; `nodes` and `jobs`
replace row by row and drop what is `removed`; `pulse` says how fresh the page is. Old state + messages = state
fetched afresh.

From the viewer to the job's socket, as JSON (all but `type` may be left out):

    {"type": "series", "view": "main", "names": ["loss"], "ranks": [0], "points": 2000, "attempts": "current",
     "since": 0, "attempt": 2}       asks for series under a name of the viewer's choice, or asks anew
    {"type": "series.stop", "view": "main"}
    {"type": "log", "rank": 0, "attempt": 2, "node_rank": 0, "offset": 0}    follows a log, from its tail if not told
    {"type": "log.stop"}

To the list's socket: {"type": "jobs", "ids": [...]} names the rows that the page shows.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from jobs.series.read_limits import DEFAULT_POINTS, MAX_NAMES, MAX_POINTS

MAX_VIEWS = 40
MAX_ROWS = 500


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)


# --- to the viewer --------------------------------------------------------------------------------------------------


class PulseMessage(_Message):
    """At least every two seconds."""

    type: Literal["pulse"] = "pulse"
    status: Literal["live", "catching up", "stale"]
    stale_seconds: float = 0
    at: str  # the portal's time


class JobMessage(_Message):
    """The job's row with attempts and placements, whenever anything of it changed."""

    type: Literal["job"] = "job"
    rev: int
    job: dict[str, Any]


class EventsMessage(_Message):
    type: Literal["events"] = "events"
    rev: int
    events: list[dict[str, Any]]


class CheckpointsMessage(_Message):
    type: Literal["checkpoints"] = "checkpoints"
    checkpoints: list[dict[str, Any]]


class UsageMessage(_Message):
    """The newest sample of each node that the job is on."""

    type: Literal["usage"] = "usage"
    nodes: list[dict[str, Any]]


class JobsMessage(_Message):
    """Rows of the list that changed; `newest` is the highest id that the viewer may see."""

    type: Literal["jobs"] = "jobs"
    changed: list[dict[str, Any]]
    removed: list[int]
    newest: int


class NodesMessage(_Message):
    type: Literal["nodes"] = "nodes"
    changed: list[dict[str, Any]]
    removed: list[str]


class QueueMessage(_Message):
    type: Literal["queue"] = "queue"
    total: int
    jobs: list[dict[str, Any]]


# --- from the viewer ------------------------------------------------------------------------------------------------


class SeriesAsk(_Message):
    """A view of series with its cursor."""

    view: str = Field("", max_length=100)
    names: tuple[str, ...] | None = Field(None, max_length=MAX_NAMES)
    ranks: tuple[int, ...] = Field((0,), max_length=1024)
    points: int = Field(DEFAULT_POINTS, ge=2, le=MAX_POINTS)
    attempts: Literal["current", "all"] = "current"
    since: int = Field(0, ge=0)
    attempt: int | None = None

    @field_validator("names", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class LogAsk(_Message):
    rank: int = 0
    attempt: int | None = None
    node_rank: int | None = None
    offset: int | None = Field(None, ge=0)


class RowsAsk(_Message):
    ids: tuple[int, ...] = Field((), max_length=MAX_ROWS)
