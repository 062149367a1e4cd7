"""Secrets in what a job prints become asterisks of the same length, so that every offset stays true. Stdlib only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_SHORTEST_LINE = 8


def needles(secrets: Iterable[str]) -> list[bytes]:
    """What to look for: each secret, and the longer lines of one that has several (a key file, say)."""
    found: set[bytes] = set()
    for secret in secrets:
        found.add(secret.encode())
        lines = secret.splitlines()
        if len(lines) > 1:
            found.update(line.encode() for line in lines if len(line) >= _SHORTEST_LINE)
    return sorted(found - {b""}, key=len, reverse=True)


def reach(secrets: Sequence[bytes]) -> int:
    """How many bytes beside a piece must be looked at to find every secret that touches it."""
    return max((len(secret) for secret in secrets), default=1) - 1


def mask_all(data: bytes, secrets: Sequence[bytes]) -> bytes:
    """Every occurrence, overlapping ones too: the outcome does not depend on where the piece was cut."""
    if not any(secret in data for secret in secrets):
        return data
    masked = bytearray(data)
    for secret in secrets:
        at = data.find(secret)
        while at >= 0:
            masked[at : at + len(secret)] = b"*" * len(secret)
            at = data.find(secret, at + 1)
    return bytes(masked)


def held_back(data: bytes, secrets: Sequence[bytes]) -> int:
    """How many bytes at the end could be the beginning of a secret whose rest has not been written yet."""
    most = 0
    for secret in secrets:
        for length in range(min(len(secret) - 1, len(data)), most, -1):
            if data.endswith(secret[:length]):
                most = length
                break
    return most
