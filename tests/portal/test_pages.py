"""Home, cluster, a node, usage, the account page, and refusals."""

from __future__ import annotations

import pytest

from nodes.models import Node
from nodes.states import Admission, NodeState
from portal.accounts.models import ApiToken
from tests.builders import make_node

FRAME_PAGES = ["/", "/jobs/", "/jobs/new/", "/datasets/", "/cluster/", "/usage/", "/account/"]


@pytest.fixture
def ada(make_user, client):
    user = make_user("ada")
    client.force_login(user)
    return user


@pytest.mark.parametrize("path", FRAME_PAGES)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_pages_of_somebody_new(ada, client, path, language):
    client.cookies["django_language"] = language
    page = client.get(path)
    assert page.status_code == 200
    assert f'lang="{language}"' in page.content.decode()
    assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
    text = page.content.decode()
    assert " style=" not in text
    assert "<style" not in text
    assert " onclick=" not in text


@pytest.mark.parametrize("path", FRAME_PAGES)
def test_pages_want_somebody_signed_in(client, db, path):
    assert client.get(path).headers["Location"].startswith("/sign-in/?next=")


def test_sign_in_and_out(make_user, client):
    make_user("ada")
    assert client.post("/sign-in/", {"username": "ada", "password": "wrong"}).status_code == 200
    body = {"username": "ada", "password": "correct horse battery", "next": "/jobs/"}
    assert client.post("/sign-in/", body).headers["Location"] == "/jobs/"
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/"


def test_a_token_is_shown_once(ada, client):
    page = client.post("/account/tokens/", {"name": "laptop", "scope": "read", "days": "30"})
    token = ApiToken.objects.get()
    text = page.context["new_token"]
    assert text in page.content.decode()
    assert page.headers["Cache-Control"] == "no-store"
    assert text not in client.get("/account/").content.decode()
    assert client.post(f"/account/tokens/{token.token_key}/revoke/").status_code == 302
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("state", list(NodeState))
def test_a_node_of_every_state_has_a_card_and_a_page(ada, client, state):
    node = make_node("n-1", state=state, facts={}, usage={})
    assert b"n-1" in client.get("/cluster/").content
    assert client.get(f"/cluster/nodes/{node.pk}/").status_code == 200


def test_a_big_cluster_is_a_wall_of_cells_in_few_queries(ada, client, django_assert_max_num_queries):
    for number in range(30):
        make_node(f"n-{number}", devices=8)
    with django_assert_max_num_queries(16):
        page = client.get("/cluster/")
    assert page.content.count(b"cell cell-free") == 240


def test_only_staff_cordon(ada, make_user, client):
    node = make_node()
    path = f"/cluster/nodes/{node.pk}/admission/"
    assert client.post(path, {"admission": "cordoned"}).status_code == 403
    client.force_login(make_user("root", superuser=True))
    assert client.post(path, {"admission": "cordoned"}).status_code == 302
    assert Node.objects.get().admission == Admission.CORDONED
    assert client.post(path, {"admission": "exploded"}).status_code == 400


def test_a_refusal_has_an_id_to_quote(ada, client):
    page = client.get("/jobs/4711/")
    assert page.status_code == 404
    assert page.context["request_id"] in page.content.decode()
    told = client.get("/jobs/4711/", headers={"Accept": "application/json"})
    assert told.json()["code"] == "not_found"
