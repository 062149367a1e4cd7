"""Zips of own code: an upload that has arrived becomes something jobs may name by its SHA-256."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Sum

from datasets.services.storage_use import Who
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


def stored_bytes(who: Who, ids: list[int]) -> dict[int, int]:
    """What people's bundles take, for the storage quota; a bundle belongs to a person, never to a team."""
    if who != "owner":
        return {}
    rows = CodeBundle.objects.filter(owner__in=ids).values_list("owner")
    return dict(rows.annotate(total=Sum("stored__size_bytes")).order_by())
