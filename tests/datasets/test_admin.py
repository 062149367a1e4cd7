"""The admin shows datasets and uploads and acts through services."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from datasets.models import Dataset, Upload
from datasets.services import versions
from datasets.services.datasets import create_dataset
from datasets.services.objects import store_stream
from datasets.services.uploads import create_upload

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss(make_user, client):
    user = make_user("boss", superuser=True)
    client.force_login(user)
    return user


def test_pages_open_and_nothing_can_be_written_by_hand(client, boss, places):
    dataset = create_dataset(boss, name="<script>alert(1)</script>")
    version = versions.add_version(boss, dataset, stored=store_stream([b"x"]), file_name="x.csv")
    upload, _token = create_upload(boss, file_name="a.csv", size_bytes=5)
    for name, row in (
        ("dataset", dataset),
        ("version", version),
        ("upload", upload),
        ("storedobject", version.stored),
    ):
        listed = client.get(reverse(f"admin:datasets_{name}_changelist"))
        shown = client.get(reverse(f"admin:datasets_{name}_change", args=[row.pk]))
        assert (listed.status_code, shown.status_code) == (200, 200)
        assert b"<script>alert" not in listed.content + shown.content
        assert upload.token_hash.encode() not in shown.content
        assert client.get(reverse(f"admin:datasets_{name}_add")).status_code == 403


def test_actions_go_through_services(client, boss, places):
    dataset = create_dataset(boss, name="x")
    upload, _token = create_upload(boss, file_name="a.csv", size_bytes=5)
    chosen = {"action": "delete_chosen", "_selected_action": [dataset.pk]}
    client.post(reverse("admin:datasets_dataset_changelist"), chosen)
    client.post(reverse("admin:datasets_upload_changelist"), {"action": "give_up", "_selected_action": [upload.pk]})
    assert not Dataset.objects.exists()
    assert Upload.objects.get().state == "abandoned"


def test_who_may_only_look_is_offered_no_action(client, boss, make_user, places):
    dataset = create_dataset(boss, name="x")
    upload, _token = create_upload(boss, file_name="a.csv", size_bytes=5)
    viewer = make_user("viewer", staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename__in=["view_dataset", "view_upload"]))
    client.force_login(viewer)
    for name, action, row in (("dataset", "delete_chosen", dataset), ("upload", "give_up", upload)):
        address = reverse(f"admin:datasets_{name}_changelist")
        assert action.encode() not in client.get(address).content
        client.post(address, {"action": action, "_selected_action": [row.pk]})
    assert Dataset.objects.exists()
    assert Upload.objects.get().state == "open"
