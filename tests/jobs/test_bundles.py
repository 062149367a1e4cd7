"""Zips of own code count against their owner's storage as long as they are kept."""

from __future__ import annotations

import pytest

from datasets.models import StoredObject
from datasets.services.storage_use import used_bytes
from jobs.models import CodeBundle

pytestmark = pytest.mark.django_db


def test_a_kept_bundle_counts_for_its_owner(make_user):
    ada, bob = make_user("ada"), make_user("bob")
    stored = StoredObject.objects.create(sha256="a" * 64, key="k", size_bytes=1000)
    bundle = CodeBundle.objects.create(owner=ada, stored=stored, file_name="code.zip")
    assert (used_bytes(ada), used_bytes(bob)) == (1000, 0)
    bundle.delete()
    assert used_bytes(ada) == 0
