"""Leadership: one row, one epoch. Whoever applies a decision holds the row and compares the epoch first.

A standby takes over when the leader's beats have not moved for `TAKE_OVER_SECONDS` of the standby's own monotonic
clock; clocks are never compared across machines.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from jobs.models import Leader

TAKE_OVER_SECONDS = 10.0


class NotLeading(Exception):
    """Another master has taken over; what was decided must not be applied."""


def hold_leadership(epoch: int) -> None:
    """Inside a transaction: lock the row until it ends. Raises NotLeading when the epoch has moved on."""
    leader = Leader.objects.select_for_update(no_key=True).filter(pk=1).first()
    if leader is None or leader.epoch != epoch:
        raise NotLeading


@dataclass
class Candidate:
    """One master process. `epoch` is None while it stands by."""

    name: str
    epoch: int | None = None
    take_over_seconds: float = TAKE_OVER_SECONDS
    _seen: tuple[int, int] | None = None
    _seen_at: float = 0.0

    @classmethod
    def of_this_process(cls) -> Candidate:
        return cls(f"{socket.gethostname()[:70]}:{os.getpid()}")

    def lead(self, *, now: float | None = None) -> bool:
        """Beat when leading, else watch and take over when the leader is silent; True while leading."""
        moment = time.monotonic() if now is None else now
        if self.epoch is not None and self._beat(self.epoch):
            return True
        self.epoch = None
        Leader.objects.get_or_create(pk=1)
        leader = Leader.objects.get(pk=1)
        if (leader.epoch, leader.beats) != self._seen:
            self._seen, self._seen_at = (leader.epoch, leader.beats), moment
        is_silent = moment - self._seen_at >= self.take_over_seconds
        if not leader.holder or is_silent or _is_gone(leader.holder):
            self._take_over(leader)
        return self.epoch is not None

    def resign(self) -> None:
        """A clean end: the next one need not wait."""
        if self.epoch is not None:
            Leader.objects.filter(pk=1, epoch=self.epoch).update(holder="")
            self.epoch = None

    def _beat(self, epoch: int) -> bool:
        return bool(
            Leader.objects.filter(pk=1, epoch=epoch, holder=self.name).update(
                beats=F("beats") + 1, beat_at=timezone.now()
            )
        )

    def _take_over(self, seen: Leader) -> None:
        with transaction.atomic():
            if Leader.objects.filter(pk=1, epoch=seen.epoch, beats=seen.beats, holder=seen.holder).update(
                epoch=F("epoch") + 1, holder=self.name, beats=F("beats") + 1, beat_at=timezone.now()
            ):
                self.epoch = seen.epoch + 1


def _is_gone(holder: str) -> bool:
    """A leader of this very machine whose process no longer exists need not be waited for."""
    host, _, pid = holder.rpartition(":")
    if host != socket.gethostname()[:70] or not pid.isdigit():
        return False
    with suppress(PermissionError):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
    return False
