"""Control between nodes and portal: joining, and the exchange."""

from __future__ import annotations

from pydantic import BaseModel

from jobs.agent_http import Crew, node_view, open_view, parse
from jobs.services.exchange import exchange
from nodes.messages import Exchange, JoinRequest
from nodes.models import Node
from nodes.services.broker_login import login_after_joining
from nodes.services.joining import join

MAX_JOIN_BYTES = 8 * 1024
MAX_EXCHANGE_BYTES = 2 * 1024 * 1024

# Control has threads of its own: it never waits behind data.
_control = Crew("agent-control", threads=6, waiting=200)


def _join(body: bytes) -> BaseModel:
    reply = join(parse(JoinRequest, body))
    return reply.model_copy(update={"broker": login_after_joining(reply.node_id)})


def _exchange(node: Node, body: bytes) -> BaseModel:
    return exchange(node, parse(Exchange, body))


join_view = open_view(_join, crew=_control, most_bytes=MAX_JOIN_BYTES)
exchange_view = node_view(_exchange, crew=_control, most_bytes=MAX_EXCHANGE_BYTES)
