"""Which checkpoints of a launch are finished on disk, and which of them are still to be settled with the portal."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nodes.agent.workdir import Workdir

SETTLED = "checkpoints.json"  # in the private folder: name -> 'registered', or why it never will be
SUPERSEDED = "superseded"
_NAME = re.compile(r"step_(\d{1,18})")


def settled(folder: Workdir) -> dict[str, str]:
    return dict(folder.read(SETTLED) or {})


def waiting(folder: Workdir) -> list[str]:
    """Newest first: it is the one a successor resumes from. None once the launch was told that it has a successor."""
    done = settled(folder)
    return [] if SUPERSEDED in done else [name for name in _finished(folder.job / "checkpoints") if name not in done]


def _finished(place: Path) -> list[str]:
    """The job may have put anything here; a name that was renamed into place is a finished checkpoint."""
    try:
        names = [name for name in os.listdir(place) if _NAME.fullmatch(name)]  # noqa: PTH208 - a name may be no text
    except OSError:
        return []
    return sorted(names, key=lambda name: int(name[5:]), reverse=True)
