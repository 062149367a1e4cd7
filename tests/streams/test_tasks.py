"""The sweeps of the control worker: long tails are packed and sealed, short ones of running jobs left alone."""

from __future__ import annotations

import numpy as np
import pytest
from django.utils import timezone

from jobs.models import LogObject, SeriesBatch, SeriesChunk
from jobs.services import logs
from jobs.tasks import compact_series, seal_logs

pytestmark = pytest.mark.django_db


def test_what_an_ended_placement_left_is_packed(make_writer):
    writer = make_writer()
    writer.send(np.arange(10.0))
    assert compact_series() == 0
    writer.placement.ended_at = timezone.now()
    writer.placement.save()
    assert compact_series() == 10
    assert compact_series() == 0
    assert (SeriesBatch.objects.count(), SeriesChunk.objects.get().n) == (0, 10)


def test_many_small_batches_are_packed_while_it_runs(make_writer):
    writer = make_writer()
    for _ in range(210):
        writer.send([1.0])
    assert SeriesBatch.objects.count() < 200


def test_long_logs_are_sealed(make_writer, settings, tmp_path, monkeypatch):
    settings.STORAGE_URL = f"file://{tmp_path}/storage"
    monkeypatch.setattr(logs, "OBJECT_BYTES", 1000)
    monkeypatch.setattr(logs, "LEAST_FINAL_BYTES", 10)
    writer = make_writer()
    writer.log(b"x" * 99 + b"\n")
    assert seal_logs() == 0
    writer.log((b"y" * 99 + b"\n") * 20)
    assert seal_logs() == 2
    writer.placement.is_closed = True
    writer.placement.save()
    assert seal_logs() == 1
    assert sum(LogObject.objects.values_list("length", flat=True)) == 2100
