"""What a browser and a script do, for the demo: sign in, upload by tus, submit, follow a job, listen to its socket."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import struct
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

PIECE_BYTES = 64 * 1024
TUS = {"Tus-Resumable": "1.0.0"}
_CSRF_FIELD = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


class DemoError(Exception):
    """What went wrong, as a sentence."""


class Browser:
    """A signed-in session with its cookies."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=30)
        page = self.http.get("/sign-in/")
        found = _CSRF_FIELD.search(page.text)
        if found is None:
            raise DemoError(f"The sign-in page did not come as expected (HTTP {page.status_code}).")
        form = {"username": username, "password": password, "csrfmiddlewaretoken": found[1]}
        answer = self.http.post("/sign-in/", data=form, headers={"Referer": f"{url}/sign-in/"})
        if answer.status_code != 302:
            raise DemoError(f"Signing in as {username} failed (HTTP {answer.status_code}).")

    def upload(self, path: Path, dataset_name: str) -> str:
        """Send a file in pieces, as the datasets page does; the upload's id."""
        content = path.read_bytes()
        values = {"filename": path.name, "dataset_name": dataset_name}
        metadata = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in values.items())
        headers = {**self._csrf(), **TUS, "Upload-Length": str(len(content)), "Upload-Metadata": metadata}
        created = self._need(self.http.post("/uploads/", headers=headers), 201)
        place, token = created.headers["Location"], created.headers["Upload-Token"]
        at = 0
        while at < len(content):
            piece = content[at : at + PIECE_BYTES]
            headers = {
                **TUS,
                "Upload-Offset": str(at),
                "Upload-Token": token,
                "Content-Type": "application/offset+octet-stream",
            }
            answer = self._need(self.http.patch(place, content=piece, headers=headers), 204)
            at = int(answer.headers["Upload-Offset"])
        return str(place.rstrip("/").rsplit("/", 1)[1])

    def _csrf(self) -> dict[str, str]:
        return {"X-CSRFToken": self.http.cookies.get("csrftoken") or "", "Referer": f"{self.url}/"}

    def _need(self, answer: httpx.Response, status: int) -> httpx.Response:
        if answer.status_code != status:
            raise DemoError(
                f"{answer.request.method} {answer.request.url.path}: HTTP {answer.status_code} {answer.text}"
            )
        return answer

    def cookie_header(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())


class Rest:
    """The REST API with a token."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Token {token}"}
        self._http = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=30)

    def get(self, path: str, **query: Any) -> Any:
        return self._read(self._http.get(path, params=query)).json()

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self._read(self._http.post(path, json=body, headers=headers)).json()

    def patch(self, path: str, body: Any) -> Any:
        return self._read(self._http.patch(path, json=body)).json()

    def points(self, job: int, name: str) -> list[dict[str, str]]:
        answer = self._read(self._http.get(f"/jobs/{job}/series.csv", params={"name": name}))
        return list(csv.DictReader(io.StringIO(answer.text)))

    def _read(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_error:
            raise DemoError(
                f"{answer.request.method} {answer.request.url.path}: HTTP {answer.status_code} {answer.text}"
            )
        return answer


class Listener(threading.Thread):
    """A WebSocket client of a job's page that notes when the first point arrives (seconds since 1970)."""

    def __init__(self, browser: Browser, job: int) -> None:
        super().__init__(daemon=True)
        self.first_point_at: float | None = None
        self.trouble = ""
        parts = urlsplit(browser.url)
        self._address = f"ws://{parts.netloc}/ws/jobs/{job}/"
        self._origin, self._cookie = Origin(browser.url), browser.cookie_header()

    def run(self) -> None:
        try:
            with connect(self._address, origin=self._origin, additional_headers={"Cookie": self._cookie}) as socket:
                socket.send(json.dumps({"type": "series", "view": "main"}))
                for message in socket:
                    if isinstance(message, bytes) and _has_points(message):
                        self.first_point_at = time.time()
                        return
        except (OSError, WebSocketException) as error:
            self.trouble = f"{type(error).__name__}: {error}"


def _has_points(message: bytes) -> bool:
    """Whether a binary message of jobs/series/README.md holds at least one point."""
    if message[:4] != b"TYS1":
        return False
    (length,) = struct.unpack_from("<I", message, 4)
    return any(piece["n"] for piece in json.loads(message[8 : 8 + length])["pieces"])


def once_each(points: list[dict[str, str]], steps: int, ranks: int) -> list[str]:
    """What is wrong with the points of a job that took `steps` steps on `ranks` ranks: nothing when each came once."""
    problems = []
    for rank in range(ranks):
        seen = Counter(int(float(point["step"])) for point in points if int(point["rank"]) == rank)
        missing = [step for step in range(1, steps + 1) if not seen[step]]
        twice = [step for step, count in seen.items() if count > 1]
        strange = [step for step in seen if not 1 <= step <= steps]
        for what, found in (("missing", missing), ("doubled", twice), ("out of range", strange)):
            if found:
                problems.append(f"rank {rank}: {len(found)} points {what}, the first at step {found[0]}")
    return problems
