"""Lines of metrics.<rank>.jsonl to packed points. Pure.

A line is `{"step": 3, "name": "loss", "value": 0.5, "time": 1730000000.1}`; NaN, Infinity and -Infinity are values.
What does not fit is counted and shown, never guessed: a text as a number, true, a nested value, a missing step.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field

from nodes.messages import POINT

MAX_NAME, MAX_NAMES, MAX_SAMPLES, MAX_SAMPLE_CHARACTERS = 200, 5000, 5, 200
_NUMBER = rb"-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|NaN|Infinity)"
# The exact shape that trainyard.report writes: one regular expression over the whole piece instead of JSON per line.
# Steps and times with more digits would be infinite as floats: the slow way refuses them.
_USUAL = re.compile(
    rb'^\{"step": (-?\d{1,300}(?:\.\d+)?), "name": "([^"\\\x00-\x1f\x80-\xff]{1,200})", "value": ('
    + _NUMBER
    + rb'), "time": '
    rb"(\d{1,300}(?:\.\d+)?)\}\n",
    re.MULTILINE,
)


@dataclass
class Points:
    payload: bytes = b""
    names: list[str] = field(default_factory=list)
    bad_lines: int = 0
    bad_samples: list[str] = field(default_factory=list)


def pack(lines: bytes, known_names: set[str], *, now: float) -> Points:
    """Whole lines in, points out. `known_names` of the stream grows up to 5,000; `now` stands in for a missing time."""
    names: dict[bytes, int] = {}
    found = _USUAL.findall(lines)
    if len(found) == lines.count(b"\n") and lines.endswith(b"\n"):
        steps, texts, values, times = zip(*found, strict=True) if found else ((), (), (), ())
        for text in dict.fromkeys(texts):
            names[text] = len(names)
        decoded = [str(text, "ascii") for text in names]
        if len(known_names.union(decoded)) <= MAX_NAMES:
            known_names.update(decoded)
            indexes = [names[text] for text in texts]
            parts = map(POINT.pack, indexes, map(float, steps), map(float, times), map(float, values))
            return Points(b"".join(parts), decoded)
    return _pack_slowly(lines, known_names, now)


def _pack_slowly(lines: bytes, known_names: set[str], now: float) -> Points:
    points = Points()
    index: dict[str, int] = {}
    parts: list[bytes] = []
    for line in lines.split(b"\n"):
        if not line.strip():
            continue
        try:
            name, step, at, value = _read(line, now)
            if name not in known_names:
                if len(known_names) >= MAX_NAMES:
                    raise ValueError(f"more than {MAX_NAMES} metric names")
                known_names.add(name)
        except (ValueError, OverflowError, RecursionError) as error:
            _note_bad(points, line, error)
            continue
        if name not in index:
            index[name] = len(points.names)
            points.names.append(name)
        parts.append(POINT.pack(index[name], step, at, value))
    points.payload = b"".join(parts)
    return points


def _read(line: bytes, now: float) -> tuple[str, float, float, float]:
    usual = _USUAL.match(line + b"\n")
    if usual:
        return str(usual[2], "ascii"), float(usual[1]), float(usual[4]), float(usual[3])
    entry = json.loads(line)
    if not isinstance(entry, dict):
        raise ValueError("not an object")  # noqa: TRY004 - every complaint about a line is of one kind
    name = entry.get("name")
    if not isinstance(name, str) or not name or "\x00" in name:
        raise ValueError("the name is missing or not a text")
    if len(name) > MAX_NAME:
        raise ValueError(f"the name is longer than {MAX_NAME} characters")
    name.encode()  # a lone surrogate is no text
    step = _number(entry, "step")
    if not math.isfinite(step):
        raise ValueError("the step is not finite")
    at = _number(entry, "time") if "time" in entry else now
    return name, step, at if math.isfinite(at) else now, _number(entry, "value")


def _number(entry: dict[str, object], key: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"the {key} is missing or not a number")  # noqa: TRY004
    return float(value)


def _note_bad(points: Points, line: bytes, error: Exception) -> None:
    points.bad_lines += 1
    if len(points.bad_samples) < MAX_SAMPLES:
        shown = line[:MAX_SAMPLE_CHARACTERS].decode("utf-8", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
        points.bad_samples.append(f"{str(error)[:100]}: {shown}"[: MAX_SAMPLE_CHARACTERS + 100])
