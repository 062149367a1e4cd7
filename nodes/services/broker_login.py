"""A node's login at the broker, told to it once per session and made again from time to time (a broker may forget).

Who can make logins is given by the composition root (`provide`); this app does not know the broker.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from uuid import UUID

from nodes.messages import BrokerLogin
from nodes.models import Node
from portal.errors import Unavailable

AGAIN_SECONDS = 60.0

Maker = Callable[[UUID | str, str], tuple[str, str]]  # (node id, secret) -> (url, queue); raises Unavailable

_makers: list[Maker] = []
_lock = threading.Lock()
_tried_at: dict[UUID, float] = {}
_told: dict[UUID, UUID] = {}  # node -> session


def provide(maker: Maker) -> None:
    _makers[:] = [maker]


def login_for(node: Node, session: UUID) -> BrokerLogin | None:
    """The login, when this process has not told it to this session yet; None also while the broker is down.

    Talks to the broker (a second at most): never call it inside a transaction.
    """
    if not _makers or not _is_due(node.pk, session):
        return None
    try:
        url, queue = _makers[0](node.pk, _secret_of(node))
    except Unavailable:
        return None
    with _lock:
        is_news = _told.get(node.pk) != session
        _told[node.pk] = session
    return BrokerLogin(url=url, queue=queue) if is_news else None


def login_after_joining(node_id: UUID) -> BrokerLogin | None:
    """At once with the token; the first exchange would bring it otherwise."""
    if not _makers:
        return None
    try:
        url, queue = _makers[0](node_id, _secret_of(Node.objects.get(pk=node_id)))
    except Unavailable:
        return None
    return BrokerLogin(url=url, queue=queue)


def _is_due(node_id: UUID, session: UUID) -> bool:
    now = time.monotonic()
    with _lock:
        wait = AGAIN_SECONDS if _told.get(node_id) == session else AGAIN_SECONDS / 12
        if now - _tried_at.get(node_id, float("-inf")) < wait:
            return False
        _tried_at[node_id] = now
    return True


def _secret_of(node: Node) -> str:
    if not node.broker_secret:
        made = secrets.token_urlsafe(32)
        Node.objects.filter(pk=node.pk, broker_secret="").update(broker_secret=made)
        node.broker_secret = Node.objects.values_list("broker_secret", flat=True).get(pk=node.pk)
    return node.broker_secret
