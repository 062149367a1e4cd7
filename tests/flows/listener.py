"""A page that listens: keeps its copy of a job's series by jobs/series/README.md and comes back when it is cut off."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from jobs.series.page import from_bytes

Copy = dict[tuple[int, str], dict[str, np.ndarray]]


class Listener(threading.Thread):
    """`copy` holds raw points per (stream, name); `connects` counts how often it had to come."""

    def __init__(self, url: str, token: str, job: int, ranks: tuple[int, ...] = (0,)) -> None:
        super().__init__(daemon=True)
        self._address = f"ws://{urlsplit(url).netloc}/ws/jobs/{job}/"
        self._headers = {"Authorization": f"Token {token}"}
        self._ranks = ranks
        self._rev, self._attempt = 0, None
        self._over = threading.Event()
        self.copy: Copy = {}
        self.states: list[str] = []
        self.connects = 0
        self.resets = 0

    def close(self) -> None:
        self._over.set()
        self.join(10)

    def run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError, WebSocketException):
                self._listen()
            self._over.wait(0.1)

    def _listen(self) -> None:
        with connect(self._address, additional_headers=self._headers, max_size=None) as socket:
            self.connects += 1
            ask = {"type": "series", "view": "main", "ranks": self._ranks, "since": self._rev}
            socket.send(json.dumps(ask | ({"attempt": self._attempt} if self._attempt is not None else {})))
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    message = socket.recv(timeout=0.5)
                    if isinstance(message, bytes):
                        self._take(message)
                    elif (told := json.loads(message))["type"] == "job":
                        self.states.append(told["job"]["state"])

    def _take(self, message: bytes) -> None:
        head, columns = from_bytes(message)
        if head["reset"]:
            self.copy.clear()
            self.resets += 1
        for piece, new in zip(head["pieces"], columns, strict=True):
            key = (piece["stream"], piece["name"])
            assert piece["level"] == 0, "the stories are short enough for raw points"
            old = self.copy.get(key) if piece["first"] else None
            assert old is not None or piece["first"] == 0, "a delta for a piece that was never sent"
            self.copy[key] = (
                {name: np.concatenate([old[name][: piece["first"]], new[name]]) for name in new} if old else dict(new)
            )
        self._rev, self._attempt = head["rev"], head["attempt"]


def copy_of_rest(page: dict[str, Any]) -> Copy:
    """The same from the JSON answer of REST."""
    return {
        (piece["stream"], piece["name"]): {
            name: np.array([float(item) for item in piece[name]]) for name in ("step", "time", "value")
        }
        for piece in page["pieces"]
    }


def same(one: Copy, other: Copy) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[key][name], other[key][name], equal_nan=True)
        for key in one
        for name in ("step", "time", "value")
    )
