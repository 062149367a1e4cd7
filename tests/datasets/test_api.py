"""The REST interface of datasets, and the frame that all apps share."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from datasets.models import Dataset, Upload, Version
from datasets.services import versions
from datasets.services.datasets import create_dataset
from datasets.services.objects import store_stream
from datasets.services.uploads import create_upload
from portal.accounts.models import ApiToken
from portal.accounts.services import create_token

pytestmark = pytest.mark.django_db

LIST_QUERIES = 6  # token, its use, rows with owners, newest versions: whatever the number of rows


@pytest.fixture
def ada(make_user):
    return make_user("ada")


@pytest.fixture
def api(client, ada):
    return Api(client, create_token(ada, name="test")[1])


class Api:
    def __init__(self, client, token):
        self.client = client
        self.headers = {"Authorization": f"Token {token}"}

    def call(self, method, path, data=None, **query):
        return self.client.generic(
            method,
            f"/api/v1/{path}",
            data=b"" if data is None else json.dumps(data),
            content_type="application/json",
            headers=self.headers,
            query_params=query,
        )

    def get(self, path, **query):
        return self.call("GET", path, **query)


@pytest.fixture
def version(ada, places):
    dataset = create_dataset(ada, name="Digits")
    return versions.add_version(ada, dataset, stored=store_stream([b"a,b\n"]), file_name="数据.csv")


def test_life_of_a_dataset(api):
    created = api.call("POST", "datasets/", {"name": "Digits", "description": "UCI"})
    assert created.status_code == 201
    pk = created.json()["id"]
    assert api.call("PATCH", f"datasets/{pk}/", {"name": "Numbers"}).json()["name"] == "Numbers"
    assert api.get(f"datasets/{pk}/").json()["newest_version"] is None
    assert [row["id"] for row in api.get("datasets/").json()["results"]] == [pk]
    assert api.call("DELETE", f"datasets/{pk}/").status_code == 204
    assert api.get(f"datasets/{pk}/").status_code == 404


def test_version_options_preview_and_download(api, version):
    number = versions.mark_inspecting(version)
    facts = {"rows": 1, "columns": [{"name": "a", "type": "integer"}], "preview": [["1"]]}
    versions.apply_inspection(version.pk, number, {"kind": "table", "decision": "accept", "facts": facts})
    shown = api.get(f"versions/{version.pk}/").json()
    assert (shown["state"], shown["facts"]["rows"], "preview" in shown["facts"]) == ("ready", 1, False)
    assert api.get(f"versions/{version.pk}/preview/").json()["rows"] == [["1"]]
    changed = api.call("PATCH", f"versions/{version.pk}/", {"options": {"delimiter": ";"}})
    assert (changed.json()["state"], changed.json()["options"]) == ("waiting", {"delimiter": ";"})
    wrong = api.call("PATCH", f"versions/{version.pk}/", {"options": {"delimiter": "ab", "colour": 1}})
    assert {error["attr"] for error in wrong.json()["errors"]} == {"delimiter", "colour"}
    link = api.get(f"versions/{version.pk}/download/").json()["url"]
    assert link.startswith("http://testserver/objects/")
    assert api.call("POST", f"versions/{version.pk}/inspect/").status_code == 409


def test_strangers_get_404_and_members_403(version, client, make_user):
    from portal.accounts.models import Membership, Team

    stranger = Api(client, create_token(make_user("eve"), name="t")[1])
    dataset = version.dataset_id
    for path in (f"datasets/{dataset}/", f"versions/{version.pk}/", f"versions/{version.pk}/download/"):
        assert stranger.get(path).status_code == 404
    assert stranger.call("DELETE", f"datasets/{dataset}/").status_code == 404
    assert stranger.get("datasets/").json()["results"] == []
    bob = make_user("bob")
    team = Team.objects.create(name="Vision")
    Membership.objects.create(user=bob, team=team)
    Dataset.objects.update(team=team)
    member = Api(client, create_token(bob, name="t")[1])
    assert member.get(f"datasets/{dataset}/").status_code == 200
    assert member.call("PATCH", f"datasets/{dataset}/", {"name": "x"}).status_code == 403
    assert member.call("PATCH", f"versions/{version.pk}/", {"options": {}}).status_code == 403


def test_uploads_are_their_owners_alone(api, ada, places, client, make_user):
    upload, _token = create_upload(ada, file_name="a.csv", size_bytes=5)
    assert [row["id"] for row in api.get("uploads/").json()["results"]] == [str(upload.pk)]
    assert api.get(f"uploads/{upload.pk}/").json()["expires_at"]
    stranger = Api(client, create_token(make_user("eve"), name="t")[1])
    assert stranger.get(f"uploads/{upload.pk}/").status_code == 404
    use = api.get("storage-use/").json()["user"]
    assert (use["used_bytes"], use["reserved_bytes"], use["limit_bytes"]) == (5, 5, None)
    assert api.call("DELETE", f"uploads/{upload.pk}/").status_code == 204
    assert Upload.objects.get().state == "abandoned"


def test_cursor_pages_show_every_old_row_once_while_new_ones_come(api, ada):
    old = {create_dataset(ada, name="x").pk for _ in range(23)}
    seen, page = [], api.get("datasets/", limit=5)
    while True:
        seen += [row["id"] for row in page.json()["results"]]
        create_dataset(ada, name="new")
        following = page.json()["next"]
        if following is None:
            break
        page = api.client.get(following, headers=api.headers)
    assert len(seen) == len(set(seen))
    assert set(seen) == old


def test_equal_timestamps_do_not_confuse_pages(api, ada):
    moment = timezone.now()
    made = [Upload(owner=ada, file_name="x", size_bytes=0, token_hash="") for _ in range(12)]
    Upload.objects.bulk_create(made)
    Upload.objects.update(created_at=moment)
    seen, page = [], api.get("uploads/", limit=5)
    while page is not None:
        seen += [row["id"] for row in page.json()["results"]]
        following = page.json()["next"]
        page = api.client.get(following, headers=api.headers) if following else None
    assert sorted(seen) == sorted(str(row.pk) for row in made)


@pytest.mark.parametrize(
    "cursor", ["x", "!!!", "W10", "WyJhIl0", "WzFd" * 50, "WzFlNDAwXQ", "WzFlMzAwMDBd", "WyIxXHUwMDAwIl0"]
)
def test_damaged_cursors_are_refused(api, cursor):
    for path in ("datasets/", "uploads/"):
        answer = api.get(path, cursor=cursor)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "invalid_cursor")


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "1e2", "٣", "9" * 5000])
def test_impossible_limits_are_refused(api, limit):
    assert api.get("datasets/", limit=limit).json()["errors"][0]["attr"] == "limit"


def test_unknown_parameters_and_fields_are_named(api):
    answer = api.get("datasets/", colour="red", name="x")
    assert answer.json() == {
        "type": "validation_error",
        "errors": [
            {
                "code": "unknown_parameter",
                "detail": "There is no such query parameter. Known: cursor, limit, name, owner, team.",
                "attr": "colour",
            }
        ],
    }
    answer = api.call("POST", "datasets/", {"name": "x", "colour": "red", "id": 3})
    assert {(error["attr"], error["code"]) for error in answer.json()["errors"]} == {
        ("colour", "unknown_field"),
        ("id", "unknown_field"),
    }


@pytest.mark.parametrize(
    "body", [{"name": ""}, {}, {"name": "x" * 201}, {"name": "a\x00"}, {"name": "x", "team": 99}, []]
)
def test_wrong_bodies_get_sentences(api, body):
    answer = api.call("POST", "datasets/", body)
    assert answer.status_code == 400
    assert answer.json()["type"] == "validation_error"
    assert all(error["detail"] for error in answer.json()["errors"])


def test_filters(api, ada, version):
    create_dataset(ada, name="Other")
    assert [row["name"] for row in api.get("datasets/", name="digi").json()["results"]] == ["Digits"]
    assert api.get("versions/", dataset=version.dataset_id, state="waiting").json()["results"][0]["number"] == 1
    assert api.get("versions/", state="nonsense").status_code == 400
    assert api.get("versions/", dataset="9" * 40).status_code == 400
    assert api.get("datasets/", name="\x00").status_code == 400


class TestTokens:
    def test_read_token_reads_only(self, client, ada):
        reader = Api(client, create_token(ada, name="r", scope="read")[1])
        assert reader.get("datasets/").status_code == 200
        answer = reader.call("POST", "datasets/", {"name": "x"})
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (403, "read_only_token")

    @pytest.mark.parametrize("token", ["", "x", "é", "a b", "0" * 64])
    def test_wrong_tokens(self, client, token):
        answer = Api(client, token).get("datasets/")
        assert answer.status_code == 401
        assert answer.json()["type"] == "client_error"

    def test_expired_and_inactive(self, client, ada):
        _token, text = create_token(ada, name="t")
        api = Api(client, text)
        ApiToken.objects.update(expiry=timezone.now())
        assert api.get("datasets/").status_code == 401
        ApiToken.objects.update(expiry=None)
        assert api.get("datasets/").status_code == 200
        ada.is_active = False
        ada.save()
        assert api.get("datasets/").status_code == 401

    def test_last_use_is_noted_at_most_once_a_minute(self, api):
        api.get("datasets/")
        first = ApiToken.objects.get().last_used_at
        api.get("datasets/")
        assert first is not None
        assert ApiToken.objects.get().last_used_at == first


@pytest.mark.parametrize("count", [3, 60])
def test_list_has_a_query_budget(api, ada, count, places, django_assert_max_num_queries):
    stored = store_stream([b"x"])
    datasets = Dataset.objects.bulk_create([Dataset(owner=ada, name=f"d{n}") for n in range(count)])
    rows = [
        Version(dataset=d, number=n, stored=stored, file_name="x", created_by=ada) for d in datasets for n in (1, 2)
    ]
    Version.objects.bulk_create(rows)
    for path in ("datasets/", "versions/", "uploads/"):
        with django_assert_max_num_queries(LIST_QUERIES):
            page = api.get(path, limit=500).json()["results"]
        assert len(page) == {"datasets/": count, "versions/": 2 * count, "uploads/": 0}[path]
    newest = api.get("datasets/").json()["results"][0]["newest_version"]
    assert newest["number"] == 2
