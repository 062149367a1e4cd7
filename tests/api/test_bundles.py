"""Zips of own code over REST: kept from a finished upload, listed to their owner alone."""

from __future__ import annotations

import pytest

from datasets.models import StoredObject, Upload
from datasets.services.uploads import create_upload
from jobs.models import CodeBundle

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def places(settings, tmp_path):
    settings.STAGING_DIR = tmp_path / "staging"


def finished_upload(user, sha256: str = "a" * 64) -> Upload:
    upload, _token = create_upload(user, file_name="code.zip", size_bytes=10, purpose="code")
    stored, _new = StoredObject.objects.get_or_create(sha256=sha256, defaults={"key": sha256, "size_bytes": 10})
    Upload.objects.filter(pk=upload.pk).update(stored=stored, offset_bytes=10)
    return upload


def keep(client, upload):
    return client.post("/api/v1/bundles/", {"upload": str(upload)}, format="json")


def test_a_finished_upload_becomes_a_bundle_of_its_owner(api):
    ada, eve = api("ada"), api("eve")
    upload = finished_upload(ada.user)
    assert keep(eve, upload.pk).status_code == 404
    kept = keep(ada, upload.pk)
    assert kept.status_code == 201, kept.json()
    told = kept.json()
    assert (told["sha256"], told["file_name"], told["size_bytes"]) == ("a" * 64, "code.zip", 10)
    assert keep(ada, finished_upload(ada.user).pk).json()["id"] == told["id"]  # the same bytes
    assert ada.get("/api/v1/bundles/").json() == {"next": None, "results": [told]}
    assert eve.get("/api/v1/bundles/").json()["results"] == []


def test_what_is_no_finished_zip_is_refused(api):
    ada = api("ada")
    unfinished, _token = create_upload(ada.user, file_name="code.zip", size_bytes=10, purpose="code")
    assert keep(ada, unfinished.pk).status_code == 409
    assert keep(ada, "nonsense").status_code == 400
    assert CodeBundle.objects.count() == 0


def test_the_list_goes_by_pages(api):
    ada = api("ada")
    for digit in "abc":
        assert keep(ada, finished_upload(ada.user, digit * 64).pk).status_code == 201
    page = ada.get("/api/v1/bundles/?limit=2").json()
    rest = ada.get(page["next"]).json()
    assert [row["sha256"][0] for row in page["results"] + rest["results"]] == ["c", "b", "a"]
