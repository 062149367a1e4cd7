"""A client with a token, and a cluster that never answers but is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from nodes.models import Device, Node
from nodes.states import NodeState
from portal.accounts.models import User
from portal.accounts.services import create_token


@pytest.fixture
def api(make_user) -> Callable[..., APIClient]:
    """api(user='ada', scope='write'): a client that sends a token of that user; strings make or find the user."""

    def make(user: User | str = "ada", scope: str = "write") -> APIClient:
        person = (User.objects.filter(username=user).first() or make_user(user)) if isinstance(user, str) else user
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {create_token(person, name='tests', scope=scope)[1]}")
        client.user = person
        return client

    return make


@pytest.fixture
def make_cluster(db) -> Callable[..., list[Node]]:
    """make_cluster(nodes=2, devices=4): online nodes with devices of the kind 'cpu'."""

    def make(nodes: int = 2, devices: int = 4) -> list[Node]:
        facts = {"cpu_count": 64, "memory_bytes": 2**38}
        made = [
            Node.objects.create(name=f"n{number}", token_hash=f"{number:064}", state=NodeState.ONLINE, facts=facts)
            for number in range(nodes)
        ]
        Device.objects.bulk_create(
            Device(node=node, index=index, uuid=f"{node.name}-{index}", kind="cpu")
            for node in made
            for index in range(devices)
        )
        return made

    return make
