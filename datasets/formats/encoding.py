"""Which encoding a text file has, judged by all of its bytes.

UTF-8 is proved by decoding everything. Otherwise the lines that hold bytes above 0x7F are weighed: Chinese text in
GB18030 first (a strict test on common characters), then what charset-normalizer finds likely, then Windows-1252.
"""

from __future__ import annotations

import codecs
from pathlib import Path

from datasets.formats.options import unreadable

BLOCK_BYTES = 1 << 20
SAMPLE_BYTES = 1 << 16
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_FILES = (
    (b"PK\x03\x04", "an Excel workbook (xlsx) or another zip archive", "Save it as CSV first."),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook (xls)", "Save it as CSV first."),
    (b"\x1f\x8b", "compressed by gzip", "Unpack it first."),
    (b"%PDF", "a PDF document", "Export the table as CSV."),
    (b"PAR1", "a Parquet file", "Export it as CSV."),
    (b"\x89HDF", "an HDF5 file", "Export the table as CSV."),
    (b"\x93NUMPY", "a NumPy array", "Export it as CSV."),
    (b"\x89PNG", "an image", "Upload a CSV table."),
    (b"\xff\xd8\xff", "an image", "Upload a CSV table."),
)
# Tried beside what is certain; more would only let short texts look like something exotic.
_LIKELY = [
    "cp1252",
    "cp1250",
    "cp1251",
    "shift_jis",
    "euc_jp",
    "euc_kr",
    "big5",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
]


def refuse_other_files(path: Path) -> None:
    """Raises `Unreadable` for an empty file and for well-known files that are no text."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise unreadable("empty", "The file is empty.")
    for magic, what, advice in _OTHER_FILES:
        if head.startswith(magic):
            raise unreadable("not_text", f"This is {what}, not a CSV file. {advice}")


def guess_encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(4096)
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name
    if first_bad_byte(path, "utf-8") is None:
        return _utf16_without_bom(head) or "utf-8"
    return _utf16_without_bom(head) or _weigh(path)


def check_encoding(path: Path, encoding: str) -> None:
    """Raises `Unreadable` naming byte and line when the file does not decode."""
    try:
        b"x".decode(encoding)  # also refuses codecs that make no text, such as base64
    except UnicodeDecodeError:
        pass  # a text encoding of wider units
    except (LookupError, UnicodeError, ValueError):
        raise unreadable("unknown_encoding", f"“{encoding}” is no known encoding. Try utf-8 or gb18030.") from None
    bad = first_bad_byte(path, encoding)
    if bad is not None:
        line, byte, reason = bad
        raise unreadable(
            "encoding",
            f"Line {line}: byte 0x{byte:02X} cannot be read as {encoding} ({reason}). Choose another encoding.",
            line,
        )


def first_bad_byte(path: Path, encoding: str) -> tuple[int, int, str] | None:
    """Line, byte and reason of the first place that does not decode; None when all of it does."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with path.open("rb") as file:
        while True:
            block = file.read(BLOCK_BYTES)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                before = error.object[: error.start]
                return line + before.count(b"\n"), error.object[error.start], error.reason
            except UnicodeError as error:  # codecs for host names and the like
                return line, block[0] if block else 0, str(error)
            if not block:
                return None
            line += text.count("\n")


def _utf16_without_bom(head: bytes) -> str | None:
    for offset, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = head[offset::2]
        if len(half) > 1 and half.count(0) > 0.6 * len(half):
            return name
    return None


def _weigh(path: Path) -> str:
    sample = _sample_of_high_bytes(path)
    if _is_common_chinese(sample) and first_bad_byte(path, "gb18030") is None:
        return "gb18030"
    import charset_normalizer  # needed for few files; costs start-up time

    guessed = charset_normalizer.from_bytes(sample, cp_isolation=_LIKELY, threshold=0.3).best()
    names = [guessed.encoding] if guessed is not None and _has_many_high_bytes(sample) else []
    for name in [*names, "cp1252", "latin-1"]:
        if first_bad_byte(path, name) is None:
            return name
    return "latin-1"


def _sample_of_high_bytes(path: Path) -> bytes:
    """Lines that hold bytes above 0x7F, from anywhere in the file."""
    kept: list[bytes] = []
    size = 0
    with path.open("rb") as file:
        while size < SAMPLE_BYTES and (line := file.readline(BLOCK_BYTES)):
            if not line.isascii():
                kept.append(line[:4096])
                size += len(kept[-1])
    return b"".join(kept)


def _has_many_high_bytes(sample: bytes) -> bool:
    """One dash or quote says nothing about the language; Western Windows is then the likeliest."""
    return sum(byte > 0x7F for byte in sample) >= 20


def _is_common_chinese(sample: bytes) -> bool:
    try:
        text = sample.decode("gb18030")
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 4:
            return False
        text = sample[: error.start].decode("gb18030")
    high = [character for character in text if not character.isascii()]
    common = sum("\u4e00" <= character <= "\u9fff" and _is_in(character, "gb2312") for character in high)
    return len(high) >= 2 and common >= 0.7 * len(high)


def _is_in(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
