"""What tus 1.0 says in headers (https://tus.io/protocols/resumable-upload), read strictly."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from portal.errors import DomainError, Invalid

VERSION = "1.0.0"
PIECE_TYPE = "application/offset+octet-stream"
ALGORITHMS = ("sha256", "sha1")
KEYS = frozenset({"filename", "filetype", "dataset", "dataset_name", "team", "purpose", "sha256"})
MAX_METADATA = 8_192

ALWAYS = (("Tus-Resumable", VERSION), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
ABILITIES = (
    ("Tus-Version", VERSION),
    ("Tus-Extension", "creation,creation-with-upload,checksum,expiration,termination"),
    ("Tus-Checksum-Algorithm", ",".join(ALGORITHMS)),
)


class WrongProtocol(DomainError):
    http_status = 412


class WrongType(DomainError):
    http_status = 415


class TooLong(DomainError):
    http_status = 413


class WrongPiece(DomainError):
    """The piece's bytes do not have the announced sum; tus's own status for it."""

    http_status = 460


@dataclass
class Checksum:
    name: str
    wanted: bytes
    hash: Any

    def is_right(self) -> bool:
        return bool(self.hash.digest() == self.wanted)


def number(text: str, header: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Invalid("invalid", _("%(header)s must be a number of bytes.") % {"header": header}, field=header)
    return int(text)


def metadata(text: str) -> dict[str, str]:
    """`name base64, name base64, …`, values in UTF-8. Unknown names are refused, empty values dropped."""
    if len(text) > MAX_METADATA:
        raise Invalid("too_large", _("Upload-Metadata is longer than 8 KiB."), field="Upload-Metadata")
    values: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _space, encoded = pair.partition(" ")
        if name not in KEYS:
            raise Invalid(
                "unknown_field",
                _("There is no metadata “%(name)s”. Known: %(known)s.")
                % {"name": name[:40], "known": ", ".join(sorted(KEYS))},
                field="Upload-Metadata",
            )
        try:
            values[name] = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
        except (binascii.Error, ValueError):
            raise Invalid("invalid", _("This must be UTF-8 in base64."), field=name) from None
    return {name: value for name, value in values.items() if value}


def checksum(text: str) -> Checksum | None:
    if not text:
        return None
    name, _space, encoded = text.partition(" ")
    if name not in ALGORITHMS:
        raise Invalid("unknown_algorithm", _("Sums are sha256 or sha1."), field="Upload-Checksum")
    try:
        wanted = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("invalid", _("The sum must be base64."), field="Upload-Checksum") from None
    return Checksum(name, wanted, hashlib.new(name, usedforsecurity=False))


def require_protocol(version: str) -> None:
    if version != VERSION:
        raise WrongProtocol("tus_version", _("This server speaks tus 1.0.0: send Tus-Resumable: 1.0.0."))


def require_piece_type(content_type: str) -> None:
    if content_type.split(";", maxsplit=1)[0].strip().lower() != PIECE_TYPE:
        raise WrongType("content_type", _("Pieces are sent as application/offset+octet-stream."))


def too_long() -> TooLong:
    return TooLong("too_large", _("More bytes than the announced size. Nothing of this request was kept."))


def wrong_piece() -> WrongPiece:
    return WrongPiece("wrong_checksum", _("This piece was damaged on its way. Send it again."))
