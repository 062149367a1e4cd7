"""What each node runs, as lines a person can read and copy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from jobs.launches import preview
from jobs.models import Job
from jobs.spec import JobSpec
from nodes.messages import Launch

SHOWN_NODES = 4  # the others differ only in their rank
_PLAIN = re.compile(r"^[\w@%+=:,./${}\-]+$")


@dataclass(frozen=True)
class NodeCommand:
    node_rank: int
    ranks: str
    command: str
    environment: str


@dataclass(frozen=True)
class Commands:
    nodes: list[NodeCommand]
    others: int  # nodes that are not written out


def commands_for(launches: Sequence[Launch]) -> Commands:
    shown = [
        NodeCommand(
            launch.node_rank,
            _span(launch.ranks),
            " ".join(_quoted(part) for part in launch.argv),
            "\n".join(f"{name}={_quoted(value)}" for name, value in sorted({**launch.env, **launch.secrets}.items())),
        )
        for launch in launches[:SHOWN_NODES]
    ]
    return Commands(shown, max(0, len(launches) - SHOWN_NODES))


def commands_of(job: Job) -> Commands:
    """Of a job that was submitted; empty when its spec is of a form this portal no longer reads."""
    try:
        spec = JobSpec.model_validate(job.spec)
    except ValidationError:
        return Commands([], 0)
    return commands_for(preview(spec, secret_names=list(job.secrets.values_list("name", flat=True))))


def _quoted(part: str) -> str:
    """As a shell would need it, but placeholders stay readable."""
    return part if _PLAIN.match(part) else shlex.quote(part)


def _span(ranks: list[int]) -> str:
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}–{ranks[-1]}"
