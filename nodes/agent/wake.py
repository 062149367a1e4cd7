"""A pipe in the agent's state folder: one byte in it makes the agent exchange at once. Stdlib only."""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path

NAME = "wake"


def knock(pipe: Path) -> None:
    """Wake the agent, if one is listening. Never waits, never fails."""
    with contextlib.suppress(OSError):
        handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(handle, b"!")
        finally:
            os.close(handle)


class Doorbell:
    """The agent's end of the pipe."""

    def __init__(self, state: Path) -> None:
        self.path = state / NAME
        self.path.unlink(missing_ok=True)
        os.mkfifo(self.path, 0o600)
        self._handle = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._handle, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait for a knock at most so long; empties the pipe."""
        ready, _, _ = select.select([self._handle], [], [], max(0.0, seconds))
        if not ready:
            return False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._handle, 4096):
                pass
        return True

    def close(self) -> None:
        os.close(self._handle)
