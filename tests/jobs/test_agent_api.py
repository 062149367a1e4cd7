"""The node's endpoints over HTTP: who may speak, how much, and what a refusal looks like."""

from __future__ import annotations

import json
import threading
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client

from jobs.agent_http import Crew
from jobs.models import Placement
from jobs.states import PlacementState
from nodes.messages import Exchange, JoinReply, NodeFacts, Phase, PlacementReport, Reply
from nodes.services.joining import make_join_code
from portal.errors import Unavailable
from tests.builders import make_job, make_node, schedule

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/agent/exchange"


def message(node, **fields) -> str:
    base = {
        "node_id": node.pk,
        "boot_id": "b",
        "session": uuid4(),
        "counter": 1,
        "sent_at": 0.0,
        "hostname": "gpu-1",
        "address": "127.0.0.1",
        "facts": NodeFacts(cpu_count=1, memory_bytes=1),
    }
    return Exchange(**{**base, **fields}).model_dump_json()


def post(body, token: str | None = None, url: str = URL):
    headers = {"Authorization": f"Node {token}"} if token else {}
    return Client().post(url, body, content_type="application/json", headers=headers)


def detail(answer) -> str:
    return answer.json()["errors"][0]["detail"]


def test_an_order_goes_down_and_its_acceptance_up():
    node = make_node()
    make_job()
    schedule()
    session = uuid4()
    reply = Reply.model_validate_json(post(message(node, session=session), node.token).content)
    token = reply.launches[0].token
    report = PlacementReport(token=token, phase=Phase.ACCEPTED)
    body = message(node, session=session, counter=2, placements=[report])
    again = Reply.model_validate_json(post(body, node.token).content)
    assert again.launches == []
    assert Placement.objects.get().state == PlacementState.ACCEPTED


def test_joining_by_code_then_exchanging_with_the_token():
    body = {"code": make_join_code(None), "node_id": str(uuid4()), "hostname": "gpu-9", "address": "10.0.0.9"}
    answer = post(json.dumps(body), url="/api/v1/agent/join")
    reply = JoinReply.model_validate_json(answer.content)
    assert reply.name == "gpu-9"
    assert reply.broker is None, "no broker answers here"
    assert post(json.dumps(body), url="/api/v1/agent/join").status_code == 400


@pytest.mark.parametrize("token", [None, "wrong", "x" * 5000])
def test_without_a_nodes_token_nothing_is_said(token):
    answer = post(message(make_node()), token)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Node"
    assert "join again" in detail(answer)


def test_a_token_speaks_for_its_own_node_only():
    assert post(message(make_node()), make_node().token).status_code == 403


@pytest.mark.parametrize(
    ("body", "named"), [("", "?"), ("[]", "?"), ("{}", "node_id"), ('{"node_id": 5}', "node_id"), (b"\xff\x00", "?")]
)
def test_what_is_not_understood_is_named(body, named):
    answer = post(body, make_node().token)
    assert answer.status_code == 400
    assert named in detail(answer)


def test_size_and_method_are_bounded():
    node = make_node()
    assert post("x" * (2 * 1024 * 1024 + 1), node.token).status_code == 413
    assert Client().get(URL).status_code == 405
    assert post("x" * 9000, url="/api/v1/agent/join").status_code == 413


async def test_more_than_the_crew_can_take_is_refused_at_once():
    import asyncio

    crew = Crew("test", threads=1, waiting=1)
    gate = threading.Event()
    first = [asyncio.ensure_future(crew.run(lambda: (gate.wait(10), HttpResponse("done"))[1])) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await crew.run(lambda: HttpResponse("never"))
    gate.set()
    assert [answer.content for answer in await asyncio.gather(*first)] == [b"done", b"done"]
    assert (await crew.run(lambda: HttpResponse("again"))).content == b"again"
