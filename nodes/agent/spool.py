"""One log or metrics file of a launch on its way to the portal: the next piece, masked or packed, and its offset."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID

from nodes.agent.files import open_inside
from nodes.agent.masking import held_back, mask_all, reach
from nodes.agent.metrics import pack
from nodes.messages import Batch, StreamHead

LOG_PIECE = 1 << 20  # a flood fills whole requests; where several streams wait, each gets its share
METRICS_PIECE = 512 * 1024  # a line longer than this is no point
KEPT_TAIL = 1 << 20
MOST_UNSENT_METRICS = 4 * 2**30  # weeks of points; a file made this long on purpose must not be read for ever


@dataclass
class Flow:
    """How much log one rank may send: a burst, then a steady rate; what outgrows `most_unsent` is skipped and told."""

    rate_bytes: float = 4 * 2**20
    burst_bytes: float = 64 * 2**20
    most_unsent_bytes: int = 16 * 2**20
    tokens: float = -1.0
    filled_at: float = 0.0

    def allowance(self, now: float) -> int:
        if self.tokens < 0:
            self.tokens = self.burst_bytes
        else:
            self.tokens = min(self.burst_bytes, self.tokens + (now - self.filled_at) * self.rate_bytes)
        self.filled_at = now
        return int(self.tokens)

    def take(self, count: int) -> None:
        self.tokens = max(0.0, self.tokens - count)


class Spool:
    """State between batches is only `acked`, which the portal rules, and the gap we chose to leave after it."""

    def __init__(
        self,
        folder_of_job: Path,
        file: str,
        *,
        token: UUID,
        rank: int,
        kind: Literal["log", "metrics"],
        secrets: Sequence[bytes],
    ) -> None:
        self.folder, self.file = folder_of_job, file
        self.token, self.rank, self.kind = token, rank, kind
        self.secrets = secrets
        self.acked = 0
        self.dropped_bytes = 0
        self.rests_until = 0.0
        self.flow = Flow()
        self._names: set[str] = set()
        self._place = f"{folder_of_job}/{file}"  # asked for often: no Path is made each time
        self._skip_to = 0  # the gap we left: [acked, _skip_to)

    @property
    def key(self) -> str:
        return f"{self.rank}/{self.kind}"

    def size(self) -> int:
        """Bytes that can be shipped; a link, or a file with a second name, is none of the job's own output."""
        try:
            facts = os.lstat(self._place)
        except OSError:
            return 0
        return facts.st_size if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1 else 0

    def next_batch(self, *, has_ended: bool, most_bytes: int) -> Batch | None:
        """The next piece, at most `most_bytes` of payload; None when there is nothing to say now."""
        if self.size() <= self.acked:
            return None
        handle = open_inside(self.folder, self.file)
        if handle is None:
            return None
        try:
            end = os.fstat(handle).st_size
            if self.kind == "log":
                return self._log_batch(handle, end, has_ended, most_bytes)
            return self._metrics_batch(handle, end, has_ended, most_bytes)
        finally:
            os.close(handle)

    def accept(self, acked: int) -> None:
        """The portal's word, even backwards: what it does not have is sent again."""
        if acked < self.acked:
            self._skip_to = 0
        self.acked = acked

    # --- logs ----------------------------------------------------------------------------------------------------

    def _log_batch(self, handle: int, end: int, has_ended: bool, most_bytes: int) -> Batch | None:
        now = time.monotonic()
        allowed = self.flow.allowance(now)
        start = max(self.acked, self._skip_to)
        if end - start > self.flow.most_unsent_bytes and allowed < end - start:
            start = self._skip(handle, start, end)
        count = min(end - start, most_bytes, LOG_PIECE)
        if not has_ended:
            count = min(count, allowed)
        if count <= 0:
            return None
        data = self._masked(handle, start, count, growing_end=None if has_ended else end)
        if not data:
            return None
        self.flow.take(len(data))
        return Batch(self._head(start, len(data)), data)

    def _masked(self, handle: int, start: int, count: int, *, growing_end: int | None) -> bytes:
        """Bytes of the file from `start`; looked at with their surroundings, so that a cut hides no secret.

        What may be the beginning of a secret at the end of a file that still grows is left for later.
        """
        margin = reach(self.secrets)
        before = min(start, margin)
        raw = os.pread(handle, before + count + margin, start - before)
        kept = len(raw)
        if growing_end is not None and start - before + len(raw) >= growing_end:
            kept -= held_back(raw, self.secrets)
        return mask_all(raw, self.secrets)[before : max(before, min(before + count, kept))]

    def _skip(self, handle: int, start: int, end: int) -> int:
        """Leave a gap up to the beginning of a line near the end."""
        target = end - KEPT_TAIL
        newline = os.pread(handle, 64 * 1024, target).find(b"\n")
        self._skip_to = target + newline + 1
        self.dropped_bytes += self._skip_to - start
        return self._skip_to

    # --- metrics -------------------------------------------------------------------------------------------------

    def _metrics_batch(self, handle: int, end: int, has_ended: bool, most_bytes: int) -> Batch | None:
        start = max(self.acked, self._skip_to)
        if end - start > MOST_UNSENT_METRICS:
            start = self._skip(handle, start, end)
        # A point takes fewer bytes than its line, names and samples come on top.
        piece = os.pread(handle, min(METRICS_PIECE, max(64 * 1024, most_bytes)), start)
        is_last = start + len(piece) == end
        whole = piece.rfind(b"\n") + 1
        if whole == 0:
            if is_last and not has_ended and len(piece) < METRICS_PIECE:
                return None  # a line being written
            whole = len(piece)
        elif is_last and has_ended:
            whole = len(piece)
        return self._packed(handle, start, piece[:whole])

    def _packed(self, handle: int, start: int, lines: bytes) -> Batch:
        """A line that began before `start` was too long to be a point: its rest is passed over, counted at its end."""
        if start and os.pread(handle, 1, start - 1) != b"\n":
            _, _, lines_left = lines.partition(b"\n")
            points = pack(lines_left, self._names, now=time.time())
            points.bad_lines += 1 if lines_left or lines.endswith(b"\n") else 0
        elif len(lines) >= METRICS_PIECE and b"\n" not in lines:
            points = pack(b"", self._names, now=time.time())
            points.bad_samples.append(lines[:200].decode("utf-8", "replace"))
        else:
            points = pack(lines, self._names, now=time.time())
        head = self._head(start, len(lines)).model_copy(
            update={
                "names": [self._text(name) for name in points.names],
                "bad_lines": points.bad_lines,
                "bad_samples": [self._text(sample) for sample in points.bad_samples],
            }
        )
        return Batch(head, points.payload)

    def _text(self, text: str) -> str:
        return mask_all(text.encode(errors="replace"), self.secrets).decode(errors="replace")

    def _head(self, start: int, source_bytes: int) -> StreamHead:
        gap = start - self.acked
        return StreamHead(
            token=self.token, rank=self.rank, kind=self.kind, offset=start, source_bytes=source_bytes, gap=gap
        )
