"""The nodes' endpoint for streams: its own token, its own limits, one shape of refusal."""

from __future__ import annotations

import pytest

from jobs import agent_streams
from jobs.models import Job
from nodes.messages import MAX_STREAM_BODY, StreamAnswer, pack_batches
from nodes.services.tokens import make_token

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/agent/streams"


@pytest.fixture
def shipping(make_writer):
    writer = make_writer()
    token, writer.node.token_hash = make_token()
    writer.node.save()
    return writer, {"HTTP_AUTHORIZATION": f"Node {token}"}


def post(client, body: bytes, **headers):
    return client.post(URL, body, content_type="application/octet-stream", **headers)


def test_batches_are_taken_and_acknowledged(client, shipping):
    writer, headers = shipping
    answer = post(client, pack_batches([writer.batch([1.0, 2.0])]), **headers)
    assert answer.status_code == 200
    assert StreamAnswer.model_validate_json(answer.content).acks[0].acked == 20


@pytest.mark.parametrize("header", ["", "Node", "Node wrong", "Token x", "Bearer x"])
def test_without_a_nodes_token_nothing_is_taken(client, shipping, header):
    answer = post(client, pack_batches([shipping[0].batch([1.0])]), HTTP_AUTHORIZATION=header)
    assert answer.status_code == 401


def test_broken_and_oversized_bodies_are_refused(client, shipping):
    _, headers = shipping
    assert post(client, b"\x00\x01", **headers).status_code == 400
    assert post(client, b"x" * (agent_streams.MAX_BODY + 1), **headers).status_code == 413
    assert agent_streams.MAX_BODY >= MAX_STREAM_BODY
    assert client.get(URL, **headers).status_code == 405


def test_the_progress_that_rank_0_told_last_is_the_jobs(client, shipping):
    writer, headers = shipping
    told = writer.batch([0.25, 0.5, 0.5, float("nan")], names=["progress", "loss", "progress", "progress"])
    post(client, pack_batches([told]), **headers)
    job = Job.objects.get(pk=writer.placement.attempt.job_id)
    assert job.progress == 0.5
