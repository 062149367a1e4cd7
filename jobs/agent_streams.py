"""What nodes send beside the exchange: log bytes and points, and offers of checkpoints.

Control never waits behind data: these have their own few threads, so a flood of points holds up neither the exchange
nor pages.
"""

from __future__ import annotations

from pydantic import BaseModel

from jobs.agent_http import Crew, node_view, parse
from jobs.services.checkpoints import offer
from jobs.services.progress import take_batches
from nodes.messages import MAX_STREAM_BODY, CheckpointOffer
from nodes.models import Node

MAX_BODY = MAX_STREAM_BODY + 64 * 1024  # the last batch may go over by its header
MAX_OFFER = 2 * 2**20

_crew = Crew("streams", threads=2, waiting=64)


def _offer(node: Node, body: bytes) -> BaseModel:
    return offer(node, parse(CheckpointOffer, body))


streams = node_view(take_batches, crew=_crew, most_bytes=MAX_BODY)
checkpoints = node_view(_offer, crew=_crew, most_bytes=MAX_OFFER)
