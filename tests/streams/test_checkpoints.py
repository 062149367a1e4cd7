"""Checkpoints: registered when every file is stored, fenced by attempt, thinned, counted."""

from __future__ import annotations

import hashlib
import math
from types import SimpleNamespace

import pytest
from django.utils import timezone

from datasets.models import StoredObject
from datasets.services.objects import store_stream
from datasets.services.storage_use import used_bytes
from datasets.tickets import PREFIX, PutTicket, read_ticket
from jobs.models import Checkpoint, CheckpointObject, JobEvent
from jobs.services import checkpoints
from nodes.messages import CheckpointFile, CheckpointOffer
from portal.accounts.models import Quota
from portal.errors import NotFound

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.STORAGE_URL = f"file://{tmp_path}/storage"


@pytest.fixture
def saver(make_writer):
    """A node whose launch has saved something."""
    writer = make_writer()
    return SimpleNamespace(writer=writer, node=writer.node, job=writer.placement.attempt.job)


def offer_of(saver, step=1, contents=(b"weights", b"state"), **changes) -> CheckpointOffer:
    files = [
        CheckpointFile(path=f"part{n}.bin", sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        for n, data in enumerate(contents)
    ]
    told = {"token": saver.writer.placement.token, "step": step, "saved_at": 1.0, "files": files}
    return CheckpointOffer(**(told | changes))


def save(saver, step=1, contents=(b"weights", b"state")) -> Checkpoint:
    for data in contents:
        store_stream([data])
    answer = checkpoints.offer(saver.node, offer_of(saver, step, contents))
    assert answer.is_registered, answer
    return Checkpoint.objects.get(step=step, attempt=saver.writer.placement.attempt)


def test_missing_files_are_asked_for_and_then_it_is_registered(saver):
    message = offer_of(saver, metrics={"loss": 0.5, "bad": math.nan})
    store_stream([b"state"])
    first = checkpoints.offer(saver.node, message)
    assert not first.is_registered
    (sha256,) = first.missing
    ticket = read_ticket(first.missing[sha256].removeprefix(PREFIX))
    assert ticket == PutTicket(hashlib.sha256(b"weights").hexdigest(), 7)
    assert not Checkpoint.objects.exists()
    store_stream([b"weights"])
    for _ in range(2):
        assert checkpoints.offer(saver.node, message).is_registered
    row = Checkpoint.objects.get()
    assert (row.size_bytes, row.metrics) == (12, {"loss": 0.5})
    assert row.rev == JobEvent.objects.get(kind="checkpoint").rev
    assert checkpoints.newest_good(saver.job) == row
    assert [link.path for link in checkpoints.links(row)] == ["part0.bin", "part1.bin"]
    assert {path: stored.size_bytes for path, stored in checkpoints.members(row)} == {"part0.bin": 7, "part1.bin": 5}


def test_a_later_attempt_that_runs_ends_the_right_to_register(saver, make_writer):
    newer = make_writer(saver.job, attempt=2)
    newer.placement.attempt.running_at = None
    newer.placement.attempt.save()
    save(saver)
    newer.placement.attempt.running_at = timezone.now()
    newer.placement.attempt.save()
    assert "superseded" in checkpoints.offer(saver.node, offer_of(saver, step=2)).refused
    assert checkpoints.offer(newer.node, offer_of(saver, step=2)).refused == "unknown token"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a\\b", "", "a/./b"])
def test_paths_that_leave_the_folder_are_refused(saver, path):
    file = CheckpointFile(path=path, sha256="0" * 64, size_bytes=1)
    assert checkpoints.offer(saver.node, offer_of(saver, files=[file])).refused


def test_only_the_newest_few_are_kept_but_never_one_in_use(saver):
    saver.job.spec = {"checkpoint": {"keep": 2}}
    saver.job.save()
    first = save(saver, 1, (b"one",))
    saver.job.resume_from = first
    saver.job.save()
    rows = [save(saver, step, (f"step {step}".encode(),)) for step in (2, 3, 4)]
    standing = set(Checkpoint.objects.filter(is_removed=False).values_list("step", flat=True))
    assert standing == {1, 3, 4}
    assert not CheckpointObject.objects.filter(checkpoint=rows[0]).exists()
    rows[0].refresh_from_db()
    with pytest.raises(NotFound):
        checkpoints.links(rows[0])
    assert StoredObject.objects.count() == 4  # the sweep takes it later


def test_storage_is_counted_and_limited(saver):
    save(saver, 1)
    assert checkpoints.stored_bytes("owner", [saver.job.owner_id]) == {saver.job.owner_id: 12}
    assert used_bytes(saver.job.owner) == 12
    Quota.objects.create(user=saver.job.owner, max_storage_bytes=20)
    for step in (2, 3):
        assert "20 B" in checkpoints.offer(saver.node, offer_of(saver, step, (b"x" * 9,))).refused
    assert JobEvent.objects.filter(data__code="checkpoint_refused").count() == 1


def test_a_file_of_another_length_is_refused(saver):
    store_stream([b"weights"])
    file = CheckpointFile(path="a", sha256=hashlib.sha256(b"weights").hexdigest(), size_bytes=8)
    assert "long" in checkpoints.offer(saver.node, offer_of(saver, files=[file])).refused
