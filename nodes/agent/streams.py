"""The thread that ships logs and points: from the acknowledged offsets on, in turns, at most 1 MiB a request."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time

from nodes.agent.client import Portal, PortalDown, Refused
from nodes.agent.placement import Placement
from nodes.agent.registry import Registry
from nodes.agent.spool import Spool
from nodes.messages import MAX_STREAM_BODY, Batch, StreamAck, pack_batches

log = logging.getLogger(__name__)
LOOK_SECONDS, RARE_LOOK_SECONDS = 0.1, 0.25  # the second while news may gather longer
IDLE_SECONDS = 0.5
MUCH_BYTES = 256 * 1024
LONGEST_PAUSE_SECONDS = 15.0
PERSIST_SECONDS = 2.0
PROBLEM_SECONDS = 5.0  # a stream that the portal cannot take now leaves its turns to others for so long
_HEAD_ROOM = 4096


class Shipper(threading.Thread):
    def __init__(self, registry: Registry, portal: Portal) -> None:
        super().__init__(name="streams", daemon=True)
        self._registry = registry
        self._portal = portal
        self._stop_asked = threading.Event()
        self._turn = 0
        self._failures = 0
        self._persisted_at = 0.0
        self._shipped_at = 0.0
        self.every_seconds = LOOK_SECONDS  # how long news may gather; the portal says so at each exchange

    def close(self) -> None:
        self._stop_asked.set()
        self._portal.close()
        self.join(5)
        self._persist(self._registry.all())

    def run(self) -> None:
        pause = 0.0
        while not self._stop_asked.wait(pause):
            try:
                pause = self._round()
            except Exception:
                log.exception("shipping failed; it goes on")
                pause = LONGEST_PAUSE_SECONDS

    def _round(self) -> float:
        """Ship one body; how long to wait until the next look."""
        placements = [placement for placement in self._registry.all() if not placement.is_quarantined]
        batches = self._collect(placements) if self._is_due(placements) else []
        self._persist(placements)
        if not batches:
            return self._look_again() if any(not p.has_ended() for p in placements) else IDLE_SECONDS
        self._shipped_at = time.monotonic()
        try:
            answer = self._portal.streams(pack_batches(batches))
        except (PortalDown, Refused) as error:
            self._failures += 1
            if self._failures in (1, 10) or self._failures % 100 == 0:
                log.warning("streams wait on this node: %s", error)
            pause = min(LONGEST_PAUSE_SECONDS, 0.2 * 2.0 ** min(self._failures, 10))
            return pause * random.uniform(0.5, 1.0)
        self._failures = 0
        self._apply(answer.acks)
        # What was read counts, not what was sent: bad lines are many bytes read and none to send.
        read_bytes = sum(batch.head.source_bytes for batch in batches)
        return 0.0 if read_bytes > MAX_STREAM_BODY // 4 else self._look_again()

    def _look_again(self) -> float:
        return max(LOOK_SECONDS, min(RARE_LOOK_SECONDS, self.every_seconds))

    def _is_due(self, placements: list[Placement]) -> bool:
        """Time has passed, much has gathered, or a launch has ended whose last words its job waits for."""
        if time.monotonic() - self._shipped_at >= self.every_seconds:
            return True
        unsent = 0
        for placement in placements:
            behind = sum(max(0, spool.size() - spool.acked) for spool in placement.spools.values())
            if behind and placement.has_ended():
                return True
            unsent += behind
        return unsent > MUCH_BYTES

    def _collect(self, placements: list[Placement]) -> list[Batch]:
        """Streams take turns: who was left out of this body is first in the next."""
        now = time.monotonic()
        waiting = [
            (placement, spool)
            for placement in placements
            for spool in placement.spools.values()
            if spool.size() > spool.acked and spool.rests_until < now
        ]
        if not waiting:
            return []
        first = self._turn % len(waiting)
        batches: list[Batch] = []
        room = MAX_STREAM_BODY
        for count, (placement, spool) in enumerate(waiting[first:] + waiting[:first]):
            share = max(64 * 1024, room // (len(waiting) - count) - _HEAD_ROOM)
            batch = spool.next_batch(has_ended=placement.has_ended(), most_bytes=share)
            if batch is None:
                continue
            size = len(pack_batches([batch]))
            if batches and size > room:
                self._turn = first + count
                return batches
            batches.append(batch)
            room -= size
        self._turn = first + 1
        return batches

    def _apply(self, acks: list[StreamAck]) -> None:
        spools: dict[tuple[object, str], Spool] = {
            (placement.token, spool.key): spool
            for placement in self._registry.all()
            for spool in placement.spools.values()
        }
        for ack in acks:
            spool = spools.get((ack.token, f"{ack.rank}/{ack.kind}"))
            if spool is None:
                continue
            if ack.problem:
                log.warning("stream %s of %s: %s", spool.key, ack.token, ack.problem)
                spool.rests_until = time.monotonic() + PROBLEM_SECONDS
            spool.accept(ack.acked)

    def _persist(self, placements: list[Placement]) -> None:
        if time.monotonic() - self._persisted_at < PERSIST_SECONDS:
            return
        self._persisted_at = time.monotonic()
        for placement in placements:
            with contextlib.suppress(OSError):  # closed meanwhile, or a full disk: the portal knows its offsets anyway
                placement.note_shipped()
