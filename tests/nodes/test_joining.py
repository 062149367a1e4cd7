"""One-time codes, tokens, and who may open and close nodes."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from auditlog.models import LogEntry
from django.utils import timezone

from nodes.messages import JoinRequest
from nodes.models import JoinCode, Node
from nodes.services.admission import cordon, drain, uncordon
from nodes.services.joining import join, make_join_code
from nodes.services.tokens import NotAuthenticated, node_of_header
from nodes.states import Admission, NodeState
from portal.errors import Conflict, Forbidden, Invalid
from tests.builders import make_node, make_person

pytestmark = pytest.mark.django_db


def request(code: str, **fields) -> JoinRequest:
    base = {"code": code, "node_id": uuid4(), "hostname": "gpu-1", "address": "10.0.0.1"}
    return JoinRequest(**{**base, **fields})


def test_a_code_joins_one_machine_once():
    code = make_join_code(make_person("root", is_staff=True), node_name="first")
    reply = join(request(code))
    node = Node.objects.get()
    assert (node.name, node.state, reply.name) == ("first", NodeState.NEW, "first")
    assert node_of_header(f"Node {reply.token}") == node
    assert reply.token not in (node.token_hash, JoinCode.objects.get().code_hash)
    with pytest.raises(Invalid):
        join(request(code))
    assert JoinCode.objects.get().node == node


@pytest.mark.parametrize("code", ["", "nonsense", "x" * 200])
def test_wrong_codes_are_refused(code):
    with pytest.raises(Invalid, match="join-code"):
        join(request(code))


def test_an_expired_code_is_refused():
    code = make_join_code(None)
    JoinCode.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Invalid):
        join(request(code))


def test_host_names_may_repeat():
    names = [join(request(make_join_code(None))).name for _ in range(2)]
    assert names[0] == "gpu-1"
    assert names[1].startswith("gpu-1-")


def test_a_taken_name_is_refused_when_the_code_is_made():
    make_node("first")
    with pytest.raises(Conflict):
        make_join_code(None, node_name="first")


def test_joining_again_keeps_the_node_and_ends_the_old_token():
    first = join(request(make_join_code(None)))
    again = join(request(make_join_code(None), node_id=first.node_id))
    assert Node.objects.count() == 1
    with pytest.raises(NotAuthenticated):
        node_of_header(f"Node {first.token}")
    assert node_of_header(f"Node {again.token}").pk == first.node_id


def test_a_code_for_a_new_node_takes_over_no_other():
    """Everybody signed in can read the ids of nodes."""
    old = make_node("old")
    with pytest.raises(Conflict, match="old"):
        join(request(make_join_code(None, node_name="new"), node_id=old.pk))
    assert node_of_header(f"Node {old.token}").pk == old.pk


@pytest.mark.parametrize("header", ["", "Node", "Node ", "Node wrong", "Token {token}", "Bearer {token}"])
def test_other_headers_name_no_node(header):
    node = make_node()
    with pytest.raises(NotAuthenticated):
        node_of_header(header.format(token=node.token))


def test_staff_open_and_close_nodes_with_event_and_audit_row():
    node, admin = make_node(), make_person("root", is_staff=True)
    for act, admission in ((cordon, Admission.CORDONED), (drain, Admission.DRAINING), (uncordon, Admission.OPEN)):
        act(admin, node)
        assert Node.objects.get().admission == admission
    uncordon(admin, node)
    events = node.events.filter(kind="admission")
    assert [event.actor for event in events] == [admin] * 3
    rows = LogEntry.objects.filter(object_repr=node.name, changes__has_key="admission")
    assert [row.actor for row in rows] == [admin] * 3


def test_others_do_not():
    with pytest.raises(Forbidden):
        drain(make_person(), make_node())
