"""The agent's one way to the portal: HTTP below /api/v1/agent/ with the node's own token, and signed addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import urljoin

import httpx
from pydantic import BaseModel, ValidationError

from nodes.messages import (
    CheckpointAnswer,
    CheckpointOffer,
    Exchange,
    JoinReply,
    JoinRequest,
    Reply,
    StreamAnswer,
)

CONTROL_TIMEOUT = httpx.Timeout(20.0, connect=5.0)
DATA_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
Answer = TypeVar("Answer", bound=BaseModel)


class PortalDown(Exception):
    """No usable answer; the same may be asked again later."""


class Refused(Exception):
    """The portal understood and said no; asking again changes nothing. Holds its sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Portal:
    """Threads use clients of their own, so that control never waits for a connection that carries data."""

    def __init__(self, url: str, token: str = "", *, timeout: httpx.Timeout = DATA_TIMEOUT) -> None:
        self.url = url.rstrip("/") + "/"
        headers = {"Accept-Encoding": "identity", "User-Agent": "trainyard-agent"}
        self._login = {"Authorization": f"Node {token}"} if token else {}
        limits = httpx.Limits(max_connections=8, max_keepalive_connections=4, keepalive_expiry=60)
        # trust_env=False: a proxy from the environment must not see the node's token.
        self._http = httpx.Client(timeout=timeout, headers=headers, limits=limits, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def join(self, request: JoinRequest) -> JoinReply:
        return self._post("join", request.model_dump_json().encode(), JoinReply)

    def exchange(self, message: Exchange) -> Reply:
        return self._post("exchange", message.model_dump_json().encode(), Reply)

    def streams(self, body: bytes) -> StreamAnswer:
        return self._post("streams", body, StreamAnswer, kind="application/octet-stream")

    def offer_checkpoint(self, offer: CheckpointOffer) -> CheckpointAnswer:
        return self._post("checkpoints", offer.model_dump_json().encode(), CheckpointAnswer)

    def put(self, url: str, chunks: Iterator[bytes], size_bytes: int) -> None:
        """Bytes to a signed address. PortalDown, or Refused when the address is no longer good."""
        try:
            answer = self._http.put(urljoin(self.url, url), content=chunks, headers={"Content-Length": str(size_bytes)})
        except httpx.HTTPError as error:
            raise PortalDown(_sentence(error)) from error
        _check(answer)

    def get(self, url: str, *, offset: int) -> Iterator[tuple[int, bytes]]:
        """(position, bytes) from a signed address, starting at `offset` where the server can, else at 0."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            with self._http.stream("GET", urljoin(self.url, url), headers=headers, follow_redirects=True) as answer:
                if answer.status_code >= 400:
                    answer.read()
                _check(answer)
                at = offset if answer.status_code == httpx.codes.PARTIAL_CONTENT else 0
                for chunk in answer.iter_raw(1 << 18):
                    yield at, chunk
                    at += len(chunk)
        except httpx.HTTPError as error:
            raise PortalDown(_sentence(error)) from error

    def _post(self, path: str, body: bytes, kind_of_answer: type[Answer], kind: str = "application/json") -> Answer:
        try:
            answer = self._http.post(
                urljoin(self.url, f"api/v1/agent/{path}"), content=body, headers={**self._login, "Content-Type": kind}
            )
        except httpx.HTTPError as error:
            raise PortalDown(_sentence(error)) from error
        _check(answer)
        try:
            return kind_of_answer.model_validate_json(answer.content)
        except ValidationError as error:
            raise PortalDown(f"an answer that is not understood: {error}") from error


def _check(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    text = answer.text[:500]
    if answer.status_code >= 500 or answer.status_code in (408, 425, 429):
        raise PortalDown(f"HTTP {answer.status_code}: {text}")
    raise Refused(answer.status_code, f"HTTP {answer.status_code}: {text}")


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
