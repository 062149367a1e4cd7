"""When a training ends well."""

from __future__ import annotations

import math

from jobs.spec import Stop
from jobs.training.stopping import Best, done_after_epoch, done_before_step


def test_epochs_and_steps_bound_a_training():
    stop = Stop(epochs=2, steps=30)
    assert done_before_step(stop, epoch=1, step=29) is None
    assert done_before_step(stop, epoch=2, step=10) == "2 epochs are done"
    assert done_before_step(stop, epoch=1, step=30) == "30 steps are done"


def test_a_target_is_reached_from_its_side():
    highest = Stop.model_validate({"target": {"metric": "val_accuracy", "value": 0.9}})
    lowest = Stop.model_validate({"target": {"metric": "val_loss", "value": 0.1, "mode": "min"}})
    assert done_after_epoch(highest, {"val_accuracy": 0.89}, Best()) is None
    assert "val_accuracy reached 0.9" in (done_after_epoch(highest, {"val_accuracy": 0.9}, Best()) or "")
    assert done_after_epoch(lowest, {"val_loss": 0.2}, Best()) is None
    assert done_after_epoch(lowest, {"val_loss": 0.1}, Best())


def test_patience_counts_epochs_without_a_better_value_and_nan_is_none():
    stop = Stop.model_validate({"no_improvement": {"metric": "val_loss", "epochs": 2, "mode": "min"}})
    best = Best()
    said = [done_after_epoch(stop, {"val_loss": value}, best) for value in (1.0, 0.5, 0.5, 0.4, math.nan, 0.4)]
    assert said[:5] == [None] * 5
    assert said[5] == "val_loss did not improve for 2 epochs"
