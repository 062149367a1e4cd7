"""Secret environment values at rest: encrypted with a key derived from SECRET_KEY, opened only to compose a launch."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.utils.translation import gettext as _

from portal.errors import Invalid

_PURPOSE = b"trainyard.job-secret.v1:"


def seal(value: str) -> bytes:
    return _box(settings.SECRET_KEY).encrypt(value.encode())


def unseal(sealed: bytes | memoryview) -> str:
    """Raises Invalid when the value was sealed under another SECRET_KEY."""
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        try:
            return _box(str(key)).decrypt(bytes(sealed)).decode()
        except InvalidToken:
            continue
    raise Invalid("secret", _("A secret of this job can no longer be read: SECRET_KEY has changed. Submit it again."))


def _box(key: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(_PURPOSE + key.encode()).digest()))
