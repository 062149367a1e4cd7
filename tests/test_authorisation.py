"""Every address × method × role has an expected answer in `authorisation_table`; an address without a row fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, get_resolver
from rest_framework.test import APIClient

from tests import authorisation_table as table
from tests.authorisation_world import World, build, renew_upload

SESSION_ROLES = ("owner", "member", "manager", "stranger", "staff", "superuser")


# --- what there is ------------------------------------------------------------------------------------------------


def patterns(resolver: Any, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in resolver.url_patterns:
        text = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield plain(text), pattern
        else:
            yield from patterns(pattern, text)


def plain(text: str) -> str:
    """`^jobs/(?P<pk>[0-9]+)/$` and `jobs/<int:pk>/` alike as `jobs/<pk>/`."""
    text = re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", r"<\1>", text)
    return re.sub(r"<\w+:(\w+)>", r"<\1>", text).replace("^", "").replace("$", "").replace("\\", "")


def declared_methods(pattern: URLPattern) -> set[str]:
    """What the view says it answers. A plain function says nothing: then GET and POST must both be in the table."""
    callback: Any = pattern.callback
    actions = getattr(callback, "actions", None)
    if actions:
        return {method.upper() for method in actions} - {"HEAD"}  # added by the framework at the first request
    kind = getattr(callback, "cls", None) or getattr(callback, "view_class", None)
    if kind is not None:
        return {name.upper() for name in kind.http_method_names if hasattr(kind, name)} - {"OPTIONS", "HEAD"}
    return {"GET", "POST"}


ROUTES = dict(patterns(get_resolver()))
PAGES_AND_API = {route: pattern for route, pattern in ROUTES.items() if not route.startswith("admin/")}
ADMIN = {route: pattern for route, pattern in ROUTES.items() if route.startswith("admin/")}


def test_every_address_and_method_has_a_row():
    declared = {(method, route) for route, pattern in PAGES_AND_API.items() for method in declared_methods(pattern)}
    assert sorted(declared - set(table.HTTP)) == [], "addresses without a row"
    assert sorted(set(table.HTTP) - declared) == [], "rows without an address"


def test_every_raw_prefix_and_socket_has_a_row():
    from jobs.routing import websocket_urlpatterns
    from portal.asgi import RAW_PARTS

    raw = {route.split("/")[0] for _, route in table.RAW}
    assert {prefix.strip("/") for prefix in RAW_PARTS} == raw
    assert {plain(str(pattern.pattern)) for pattern in websocket_urlpatterns} == set(table.SOCKETS)


# --- pages, REST and the node's endpoints -------------------------------------------------------------------------


@pytest.fixture
def world(db) -> World:
    return build()


def client_of(world: World, role: str, route: str) -> Any:
    """Pages by session, the API by token. Where a role has no session (a token, a node) pages get its header."""
    is_page = role in SESSION_ROLES and not route.startswith("api/v1/")
    if (role, is_page) not in world.clients:
        world.clients[role, is_page] = _new_client(world, role, is_page)
    return world.clients[role, is_page]


def _new_client(world: World, role: str, is_page: bool) -> Any:
    if is_page:
        client = Client(raise_request_exception=False)
        client.force_login(world.people[role])
        return client
    client = APIClient(raise_request_exception=False)
    if role != "anonymous":
        client.credentials(HTTP_AUTHORIZATION=f"{'Node' if role == 'node' else 'Token'} {world.tokens[role]}")
    return client


def ask(world: World, method: str, address: str, role: str) -> Any:
    """The answer, and everything undone: rows, and the cookies that signing out would drop."""
    client = client_of(world, role, address.removeprefix("/"))
    cookies = client.cookies.output(header="", sep=";")
    is_api = address.startswith("/api/")
    body: dict[str, Any] = {"data": "{}", "content_type": "application/json"} if is_api else {}
    with transaction.atomic():
        answer = client.generic(method, address, **body)
        transaction.set_rollback(True)
    client.cookies = SimpleCookie(cookies)
    return answer


def test_answers_are_those_of_the_table(world):
    rows = {row: expected for row, expected in table.HTTP.items() if not row[1].startswith("api/v1/agent/")}
    found = {
        (method, route): {role: ask(world, method, world.address(route), role).status_code for role in table.ROLES}
        for method, route in rows
    }
    assert {row: answers for row, answers in found.items() if answers != rows[row]} == {}


def test_other_methods_are_not_answered_even_to_a_superuser(world):
    for route in PAGES_AND_API:
        if route.startswith("api/v1/") and not route.startswith("api/v1/agent/"):
            known = {method for method, other in table.HTTP if other == route}
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - known:
                assert ask(world, method, world.address(route), "superuser").status_code == 405, (method, route)


@pytest.mark.django_db(transaction=True)
def test_nodes_speak_with_their_own_token_only():
    """Answered on threads of their own, so nothing can be undone: the bodies are empty."""
    world = build()
    for (method, route), expected in table.HTTP.items():
        if not route.startswith("api/v1/agent/"):
            continue
        found = {
            role: client_of(world, role, route)
            .generic(method, world.address(route), data="{}", content_type="application/json")
            .status_code
            for role in table.ROLES
        }
        assert found == expected, (method, route)


# --- the admin, as a group ----------------------------------------------------------------------------------------


def test_the_admin_is_for_staff_and_each_page_for_its_right(world):
    for route in sorted(ADMIN):
        if route in table.ADMIN_OPEN:
            continue
        address = "/" + re.sub(r"<[^>]+>", "1", route).replace("(?P<url>.*)", "").replace("Z", "")
        for role in table.ROLES:
            for method in ("GET", "POST"):
                answer = ask(world, method, address, role)
                check_admin(route, role, method, answer.status_code, answer.headers.get("Location", ""))


def check_admin(route: str, role: str, method: str, status: int, place: str) -> None:
    told = (route, role, method, status, place)
    assert status < 500, told
    if role == "staff" and route not in table.ADMIN_STAFF:
        assert status in (302, 403, 404, 405), told
        assert status != 302 or place.startswith("/admin/"), told
    elif role not in ("staff", "superuser"):
        assert status == 302, told
        assert "/admin/login/" in place, told


# --- raw parts and sockets ----------------------------------------------------------------------------------------


def header_of(world: World, role: str) -> dict[str, str]:
    if role == "anonymous":
        return {}
    return {"authorization": f"{'Node' if role == 'node' else 'Token'} {world.tokens[role]}"}


@pytest.mark.django_db(transaction=True)
def test_raw_parts_answer_as_the_table_says():
    world = build()
    found = async_to_sync(ask_all_raw)(world)
    assert found == table.RAW


async def ask_all_raw(world: World) -> dict[tuple[str, str], dict[str, int]]:
    return {
        (method, route): {role: await ask_raw(world, method, route, role) for role in table.ROLES}
        for method, route in table.RAW
    }


async def ask_raw(world: World, method: str, route: str, role: str) -> int:
    from portal.asgi import application

    await sync_to_async(renew_upload)(world)  # others may have given it up
    headers = {"Tus-Resumable": "1.0.0", **header_of(world, role)}
    if method == "PATCH":
        headers |= {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
    if method == "POST":
        headers |= {"Upload-Length": "3", "Upload-Metadata": "filename YS5jc3Y="}
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.request(method, world.address(route), headers=headers)).status_code


@pytest.mark.django_db(transaction=True)
def test_sockets_open_as_the_table_says():
    world = build()
    assert async_to_sync(open_all_sockets)(world) == table.SOCKETS


async def open_all_sockets(world: World) -> dict[str, dict[str, int]]:
    return {route: {role: await open_socket(world, route, role) for role in table.ROLES} for route in table.SOCKETS}


async def open_socket(world: World, route: str, role: str) -> int:
    """The code it is closed with, or 0 when data come."""
    from portal.asgi import application

    headers = [(name.encode(), value.encode()) for name, value in header_of(world, role).items()]
    headers += [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    scope = {"type": "websocket", "path": world.address(route), "query_string": b"", "headers": headers}
    socket = ApplicationCommunicator(application, {**scope, "raw_path": scope["path"].encode(), "subprotocols": []})
    await socket.send_input({"type": "websocket.connect"})
    while True:
        message = await socket.receive_output(timeout=20)
        if message["type"] == "websocket.close":
            return int(message["code"])
        if message["type"] == "websocket.send" and '"type": "pulse"' not in str(message.get("text")):
            break
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(timeout=20)
    return 0
