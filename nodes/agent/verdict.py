"""How a launch ended, as exit.json tells it. Stdlib only."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodes.agent.files import open_inside, read_inside
from nodes.agent.masking import mask_all, needles
from nodes.agent.workdir import Workdir

MAX_RESULT_BYTES = 256 * 1024
MAX_RESULT_DEPTH = 64


@dataclass(frozen=True)
class End:
    """`cause` is one of nodes.messages.EndCause; `status` the launcher's wait status where there was one."""

    cause: str
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    failed_rank: int | None = None  # whose exit code or signal it is, where a rank failed by itself

    def report(self, folder: Workdir, launch: Mapping[str, Any], *, processes_gone: bool) -> dict[str, Any]:
        """The fields of nodes.messages.ExitReport that are known on the node before streams are counted."""
        result, trouble = _result(folder, launch)
        message = " ".join(part for part in (self.message, trouble) if part)
        if not processes_gone:
            message += " A process could not be killed: it hangs in the kernel, look at this node's devices."
        return {
            "cause": self.cause,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "failed_rank": self.failed_rank,
            "message": message.strip(),
            "result": result,
            "is_complete": is_complete(folder, launch),
            "processes_gone": processes_gone,
        }


def is_complete(folder: Workdir, launch: Mapping[str, Any]) -> bool:
    return bool(launch["ranks"]) and all(has_completed(folder, rank) for rank in launch["ranks"])


def has_completed(folder: Workdir, rank: int) -> bool:
    return read_inside(folder.job, f"complete.{rank}", most_bytes=4096) is not None


def of_status(status: int, *, oom_kills: int) -> End:
    """What a launcher's wait status says by itself."""
    if oom_kills > 0 and status != 0:
        return End("out_of_memory", "The kernel ended a process of this node because memory ran out.", *_codes(status))
    code, number = _codes(status)
    if number is not None:
        return End("exited", f"The launcher was ended by signal {number} ({signal.strsignal(number)}).", code, number)
    return End("exited", "" if code == 0 else f"The launcher ended with exit code {code}.", code, number)


def of_ranks(end: End, folder: Workdir, launch: Mapping[str, Any]) -> End:
    """The same end told by the rank that failed first, which a launcher of several does not say."""
    if end.cause != "exited" or end.exit_code == 0:
        return end
    failures = [found for rank in launch["ranks"] if (found := _failure(folder, rank)) is not None]
    if not failures:
        return end
    _, rank, code, number = min(failures, key=lambda failure: failure[0])
    return End("exited", "", code, number, rank)


def _failure(folder: Workdir, rank: int) -> tuple[float, int, int | None, int | None] | None:
    """(when, rank, exit code, signal) from failed.<rank>; the job may have written anything there."""
    raw = read_inside(folder.job, f"failed.{rank}", most_bytes=4096)
    try:
        told = json.loads(raw or b"")
        code, number = told["exit_code"], told["signal"]
        whole = [value for value in (code, number) if isinstance(value, int) and 0 < value < 256]
        return (float(told["at_boot"]), rank, code, number) if len(whole) == 1 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _codes(status: int) -> tuple[int | None, int | None]:
    """Exit code and signal. Wrappers that cannot die of their child's signal answer with 128 plus its number."""
    wait = status & 0x7F
    if wait:
        return None, wait
    code = (status >> 8) & 0xFF
    return code, None


def coded(cause: str, message: str, status: int) -> End:
    return End(cause, message, *_codes(status))


def _result(folder: Workdir, launch: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    handle = open_inside(folder.job, "result.json")
    if handle is None:
        return None, ""
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        data = file.read(MAX_RESULT_BYTES + 1)
    if len(data) > MAX_RESULT_BYTES:
        return None, f"result.json is larger than {MAX_RESULT_BYTES // 1024} KiB and was left out."
    try:
        masked = mask_all(data, needles(launch.get("secrets", {}).values()))
        value = json.loads(masked, parse_constant=lambda _: None)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, RecursionError) as error:
        return None, f"result.json is not JSON that can be told: {error}."
    if not isinstance(value, dict):
        return None, "result.json holds no object."
    if "\\u0000" in text or _is_deeper(value, MAX_RESULT_DEPTH):
        return None, f"result.json holds a NUL character or more than {MAX_RESULT_DEPTH} levels and was left out."
    return value, ""


def _is_deeper(value: Any, levels: int) -> bool:
    """What is deeper, or no text, could be neither told nor stored: one job would silence its whole node."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(item, levels - 1) for item in inner)
