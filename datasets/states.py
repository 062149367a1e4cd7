"""A dataset version's life. Pure."""

from __future__ import annotations

from enum import StrEnum


class VersionState(StrEnum):
    WAITING = "waiting"  # bytes are stored; inspection is wanted and waits for a node
    INSPECTING = "inspecting"
    QUESTION = "question"  # inspected; a person must decide something first (header or not, encoding)
    READY = "ready"  # may be trained on
    REFUSED = "refused"  # cannot be used; `facts["problems"]` say why, line by line


MOVES: dict[VersionState, frozenset[VersionState]] = {
    VersionState.WAITING: frozenset({VersionState.INSPECTING, VersionState.REFUSED}),
    VersionState.INSPECTING: frozenset(
        {VersionState.QUESTION, VersionState.READY, VersionState.REFUSED, VersionState.WAITING}
    ),
    VersionState.QUESTION: frozenset({VersionState.WAITING}),
    VersionState.READY: frozenset({VersionState.WAITING}),  # options changed: inspect again
    VersionState.REFUSED: frozenset({VersionState.WAITING}),
}


class UploadState(StrEnum):
    OPEN = "open"
    FINISHING = "finishing"  # all bytes are here; hash and storage under way
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"
