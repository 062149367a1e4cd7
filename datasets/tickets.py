"""Addresses that open one object for a while: whoever holds one may read (or write) just that, without any other login.

A ticket is signed with SECRET_KEY and says everything the answer needs; the object's row is read anew at each use.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.core import signing
from django.utils.translation import gettext as _

from datasets.models import StoredObject
from portal.errors import NotFound

PREFIX = "/objects/"
PERSON_SECONDS = 300  # a person's download begins within this; one that has begun goes on
_SALT = "trainyard.objects"


@dataclass(frozen=True)
class GetTicket:
    stored_id: int
    file_name: str


@dataclass(frozen=True)
class PutTicket:
    sha256: str
    max_bytes: int


def sign_get(stored: StoredObject, *, file_name: str = "", seconds: float = PERSON_SECONDS) -> str:
    """The path `/objects/<ticket>` to GET `stored`; `file_name` is what a browser saves it as."""
    return _sign({"g": stored.pk, "n": file_name}, seconds)


def sign_put(*, sha256: str, max_bytes: int, seconds: float) -> str:
    """The path to PUT bytes of exactly this SHA-256 and at most this many; they are then a `StoredObject`."""
    return _sign({"p": sha256.lower(), "m": max_bytes}, seconds)


def read_ticket(text: str) -> GetTicket | PutTicket:
    """Raises `NotFound` for a forged, damaged or expired ticket; they are not told apart."""
    refused = NotFound("ticket", _("This link is wrong or has expired. Ask for a new one."))
    try:
        data = signing.loads(text, salt=_SALT)
    except signing.BadSignature:
        raise refused from None
    if data["x"] < time.time():
        raise refused
    if "g" in data:
        return GetTicket(data["g"], data["n"])
    return PutTicket(data["p"], data["m"])


def _sign(data: dict[str, object], seconds: float) -> str:
    return PREFIX + signing.dumps({**data, "x": time.time() + seconds}, salt=_SALT, compress=True)
