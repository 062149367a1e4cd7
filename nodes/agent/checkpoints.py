"""The thread that brings finished checkpoints into the portal's storage: checked, offered, put, offered again."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nodes.agent import shelf
from nodes.agent.client import Portal, PortalDown, Refused
from nodes.agent.files import is_inside, open_inside, read_inside
from nodes.agent.placement import Placement
from nodes.agent.registry import Registry
from nodes.messages import CheckpointFile, CheckpointOffer

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
RETRY_SECONDS = 5.0
MAX_MANIFEST_BYTES = 8 * 2**20


class Unusable(Exception):
    """The checkpoint on disk is not what its manifest says; offering it again changes nothing."""


class Keeper(threading.Thread):
    def __init__(self, registry: Registry, portal: Portal) -> None:
        super().__init__(name="checkpoints", daemon=True)
        self._registry = registry
        self._portal = portal
        self._stop_asked = threading.Event()
        self._retry_at: dict[tuple[str, str], float] = {}

    def close(self) -> None:
        self._stop_asked.set()
        self._portal.close()
        self.join(5)

    def run(self) -> None:
        while not self._stop_asked.wait(LOOK_SECONDS):
            for placement in self._registry.all():
                if placement.launch is None or placement.is_quarantined or self._stop_asked.is_set():
                    continue
                self._registry.busy.add(placement.token)
                try:
                    self._serve(placement)
                except Exception:
                    log.exception("checkpoints of %s: failed; tried again", placement.token)
                finally:
                    self._registry.busy.discard(placement.token)

    def _serve(self, placement: Placement) -> None:
        """The newest checkpoint that waits, and no other: the launches of this node take turns."""
        names = shelf.waiting(placement.folder)
        if not names or time.monotonic() < self._retry_at.get((placement.folder.token, names[0]), 0.0):
            return
        try:
            self._bring(placement, names[0])
        except PortalDown as error:
            log.info("checkpoint %s waits on this node: %s", names[0], error)
            self._retry_at[placement.folder.token, names[0]] = time.monotonic() + RETRY_SECONDS

    def _bring(self, placement: Placement, name: str) -> None:
        """PortalDown to be tried again; whatever else happens is final and written down."""
        outcome = {}
        try:
            outcome[name] = self._offer(placement, name)
        except Unusable as error:
            log.warning("checkpoint %s of %s is not usable: %s", name, placement.token, error)
            outcome[name] = f"unusable: {error}"
        except Refused as error:  # an address that ran out: a fresh offer gets a new one
            raise PortalDown(str(error)) from error
        if shelf.SUPERSEDED in outcome[name]:
            outcome[shelf.SUPERSEDED] = outcome[name]
        placement.folder.write(shelf.SETTLED, {**shelf.settled(placement.folder), **outcome})
        self._retry_at.pop((placement.folder.token, name), None)

    def _offer(self, placement: Placement, name: str) -> str:
        folder = placement.folder.job
        offer = _read_offer(placement, folder, f"checkpoints/{name}")
        while not self._stop_asked.is_set():
            answer = self._portal.offer_checkpoint(offer)
            if answer.refused:
                log.warning("checkpoint %s of %s was refused: %s", name, placement.token, answer.refused)
                return f"refused: {answer.refused}"
            if answer.is_registered:
                return "registered"
            wanted = {file.sha256: file for file in offer.files if file.sha256 in answer.missing}
            if not wanted:
                raise PortalDown("not registered, though nothing is missing")
            for sha256, file in wanted.items():
                chunks = _chunks(folder, f"checkpoints/{name}/{file.path}", file.size_bytes)
                self._portal.put(answer.missing[sha256], chunks, file.size_bytes)
        raise PortalDown("the agent is ending")


def _read_offer(placement: Placement, folder: Path, place: str) -> CheckpointOffer:
    raw = read_inside(folder, f"{place}/manifest.json", most_bytes=MAX_MANIFEST_BYTES)
    if raw is None:
        raise Unusable("its manifest is missing or too large")
    try:
        manifest: dict[str, Any] = json.loads(raw)
        listed = [CheckpointFile.model_validate(item) for item in manifest["files"]]
        offer = CheckpointOffer(
            token=placement.token,
            step=manifest["step"],
            saved_at=manifest["saved_at"],
            files=listed,
            metrics=manifest.get("metrics") or {},
        )
        offer.model_dump_json()  # a name that is no text could never be told
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise Unusable(f"its manifest is not understood ({error})") from error
    for file in offer.files:
        _check(folder, place, file)
    return offer


def _check(folder: Path, place: str, file: CheckpointFile) -> None:
    if not is_inside(file.path):
        raise Unusable(f"{file.path!r} is no path inside it")
    digest = hashlib.sha256()
    size = 0
    for chunk in _chunks(folder, f"{place}/{file.path}", file.size_bytes):
        digest.update(chunk)
        size += len(chunk)
    if size != file.size_bytes or digest.hexdigest() != file.sha256:
        raise Unusable(f"{file.path} is not what was saved")


def _chunks(folder: Path, path: str, size_bytes: int) -> Iterator[bytes]:
    """Unusable as soon as the file is longer than was declared: one that grows, or is sparse, would hold everyone."""
    handle = open_inside(folder, path)
    if handle is None:
        raise Unusable(f"{path} is missing or no plain file")
    with os.fdopen(handle, "rb") as file:
        left = size_bytes
        while chunk := file.read(min(1 << 20, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise Unusable(f"{path} is longer than was saved")
            yield chunk
