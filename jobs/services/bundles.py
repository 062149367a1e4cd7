"""Zips of own code: an upload that has arrived becomes something jobs may name by its SHA-256."""

from __future__ import annotations

from django.db import transaction

from datasets.services.uploads import take_stored
from jobs.models import CodeBundle
from portal.accounts.models import User


def keep_bundle(user: User, upload_id: object) -> CodeBundle:
    """The same bytes sent twice by one person stay one bundle. Raises NotFound, Conflict (not complete yet)."""
    with transaction.atomic():
        stored, file_name = take_stored(user, upload_id, purpose="code")
        bundle = CodeBundle.objects.filter(owner=user, stored=stored).first()
        if bundle is None:
            bundle = CodeBundle.objects.create(owner=user, stored=stored, file_name=file_name)
    return bundle
