"""The pages of datasets: all that an inspection can say is shown, and as text."""

from __future__ import annotations

import pytest

from datasets.models import Dataset, StoredObject, Upload, Version
from datasets.states import VersionState

PAYLOAD = "<script>alert(1)</script>"
FACTS = {
    "read_as": {"encoding": "utf-8"},
    "rows": 3,
    "columns": [
        {"name": PAYLOAD, "type": "integer", "min": 1, "max": 3, "mean": 2.0},
        {"name": "y", "type": "text", "classes": {PAYLOAD: 2, "b": 1}},
    ],
    "label": "y",
    "classes": {PAYLOAD: 2, "b": 1},
    "preview": [["1", PAYLOAD]],
    "warnings": [{"code": "w", "text": PAYLOAD, "line": 2}],
    "problems": [{"code": "p", "text": PAYLOAD}],
    "problem_count": 30,
    "question": "label",
}


@pytest.fixture
def ada(make_user, client):
    user = make_user("ada")
    client.force_login(user)
    return user


def make_version(owner, state=VersionState.READY, facts=None, **options) -> Version:
    stored, _ = StoredObject.objects.get_or_create(sha256="a" * 64, key="a", size_bytes=10)
    dataset = Dataset.objects.create(owner=owner, name=PAYLOAD)
    return Version.objects.create(
        dataset=dataset,
        number=1,
        stored=stored,
        file_name=PAYLOAD,
        kind="table",
        state=state,
        facts=FACTS if facts is None else facts,
        options=options,
        created_by=owner,
    )


@pytest.mark.parametrize("state", list(VersionState))
@pytest.mark.parametrize("facts", [None, {}], ids=["full", "none"])
def test_a_version_of_every_state_has_a_page_that_shows_text_as_text(ada, client, state, facts):
    version = make_version(ada, state, facts)
    page = client.get(f"/datasets/{version.dataset_id}/")
    assert page.status_code == 200
    assert b"<script>alert" not in page.content
    assert b"<script>alert" not in client.get("/datasets/").content


def test_a_label_among_known_columns_needs_no_new_look(ada, client):
    version = make_version(ada)
    answer = client.post(f"/datasets/{version.dataset_id}/versions/1/options/", {"label": "y"})
    assert answer.status_code == 302
    version.refresh_from_db()
    assert (version.options, version.state) == ({"label": "y"}, VersionState.READY)
    client.post(
        f"/datasets/{version.dataset_id}/versions/1/options/", {"label": "y", "header": "no", "delimiter": "\t"}
    )
    version.refresh_from_db()
    assert version.options == {"label": "y", "header": False, "delimiter": "\t"}
    assert version.state == VersionState.WAITING


def test_only_ready_versions_can_be_trained_on_from_the_page(ada, client):
    ready, refused = make_version(ada), make_version(ada, VersionState.REFUSED)
    assert b"?version=" in client.get(f"/datasets/{ready.dataset_id}/").content
    assert b"?version=" not in client.get(f"/datasets/{refused.dataset_id}/").content


def test_unfinished_uploads_are_offered_and_forgotten(ada, make_user, client):
    mine = Upload.objects.create(owner=ada, file_name=PAYLOAD, size_bytes=10, offset_bytes=4, token_hash="x")
    other = Upload.objects.create(owner=make_user("bo"), file_name="bo.csv", size_bytes=10, token_hash="y")
    page = client.get("/datasets/").content
    assert str(mine.pk).encode() in page
    assert b"bo.csv" not in page
    assert b"<script>alert" not in page
    assert client.post(f"/datasets/uploads/{other.pk}/forget/").status_code == 404
    assert client.post(f"/datasets/uploads/{mine.pk}/forget/").status_code == 302
    assert str(mine.pk).encode() not in client.get("/datasets/").content


@pytest.mark.parametrize(("state", "status", "left"), [("failed", 302, 0), ("finishing", 409, 1)])
def test_an_upload_whose_bytes_are_being_stored_is_not_forgotten(ada, client, state, status, left):
    upload = Upload.objects.create(owner=ada, file_name="a.csv", size_bytes=1, token_hash="x", state=state)
    assert client.post(f"/datasets/uploads/{upload.pk}/forget/").status_code == status
    assert Upload.objects.count() == left


def test_a_name_that_cannot_be_is_refused_in_words(ada, client):
    version = make_version(ada)
    page = client.post(f"/datasets/{version.dataset_id}/change/", {"name": " "}, follow=True)
    assert "Give the dataset a name." in page.content.decode()
    assert client.post(f"/datasets/{version.dataset_id}/delete/").status_code == 302
    assert not Dataset.objects.exists()
