"""A line of a log as text for display. Pure: nothing a program prints can break a page.

Colours (SGR) stay as codes for the page to draw or are removed; other escape sequences go; what a carriage return has
overwritten goes; NUL and other control characters become their pictures; bytes that are not UTF-8 become U+FFFD.
"""

from __future__ import annotations

import re

MAX_LINE_BYTES = 16 * 1024  # of what is left after carriage returns; the rest is cut and said so
CUT_MARK = " …"

_SGR = r"\x1b\[[0-9;:]*m"
_OTHER = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[ -/]+[0-~]|\x1b[0-~]|\x1b"
_ESCAPES = re.compile(f"({_SGR})|(?:{_OTHER})")
_SGR_ONLY = re.compile(_SGR)
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (0x09, 0x1B)} | {0x7F: 0x2421}
_PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def clean_line(raw: bytes, *, colours: bool = True) -> str:
    """One line without its line end."""
    shown = last_state(raw)
    is_cut = len(shown) > MAX_LINE_BYTES
    text = shown[:MAX_LINE_BYTES].decode("utf-8", "replace")
    text = _ESCAPES.sub(lambda match: match.group(1) or "", text)
    if not colours:
        text = _SGR_ONLY.sub("", text)
    return text.translate(_PICTURES) + (CUT_MARK if is_cut else "")


def last_state(raw: bytes) -> bytes:
    """What a terminal shows of a line that was written over: a progress bar takes one row."""
    if b"\r" not in raw:
        return raw
    for part in reversed(raw.split(b"\r")):
        if part.strip(b" "):
            return part
    return b""
