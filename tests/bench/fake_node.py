"""A node that only ships points: its rows in the portal's database, and packed batches as its agent would send them."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from jobs.series.points import Points, pack_records
from nodes.messages import Batch, StreamHead, pack_batches
from tests.streams.server import Server

SOURCE_BYTES = 80  # of a point's line in the file on the node

_ROWS = """
import json
from django.utils import timezone
from jobs.models import Attempt, Job, Placement
from nodes.models import Node
from nodes.services.tokens import make_token
from portal.accounts.models import ApiToken, User
user = User.objects.create(username="{name}")
job = Job.objects.create(owner=user, name="bench", spec={{}}, state="running", queued_at=timezone.now())
attempt = Attempt.objects.create(job=job, number=1, epoch=1, running_at=timezone.now())
token, token_hash = make_token()
node = Node.objects.create(name="{name}", token_hash=token_hash)
placement = Placement.objects.create(attempt=attempt, node=node, node_rank=0, ranks=[0])
print(json.dumps([job.pk, token, str(placement.token), ApiToken.objects.create(user=user)[1]]))
"""


@dataclass
class FakeNode:
    """`person` is an API token of the job's owner."""

    job: int
    node_token: str
    placement: UUID
    person: str
    port: int
    offset: int = 0

    def body(self, names: list[str], index: np.ndarray, points: Points) -> bytes:
        """The next batch in its frame; the offset moves on."""
        head = StreamHead(
            token=self.placement,
            rank=0,
            kind="metrics",
            offset=self.offset,
            source_bytes=SOURCE_BYTES * len(points),
            names=names,
        )
        self.offset += head.source_bytes
        return pack_batches([Batch(head, pack_records(index.astype(np.uint32), points))])

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def post(self, connection: http.client.HTTPConnection, body: bytes) -> dict:
        headers = {"Authorization": f"Node {self.node_token}", "Content-Type": "application/octet-stream"}
        connection.request("POST", "/api/v1/agent/streams", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, (answer.status, text[:500])
        return json.loads(text)["acks"][0]


def make_node(server: Server, name: str) -> FakeNode:
    job, node_token, placement, person = json.loads(server.django(_ROWS.format(name=name)).splitlines()[-1])
    return FakeNode(job, node_token, UUID(placement), person, server.port)
