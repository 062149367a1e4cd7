"""When a training ends well. Every condition is judged on values that all ranks share, so all judge alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jobs.spec import Stop


@dataclass
class Best:
    """The best value of the metric watched for improvement, and since how many epochs there was none."""

    value: float | None = None
    epochs_since: int = 0


def done_before_step(stop: Stop, epoch: int, step: int) -> str | None:
    """Why no further step is wanted, or None. Epochs count from 0, `step` is the number of steps made."""
    if stop.epochs is not None and epoch >= stop.epochs:
        return f"{stop.epochs} epochs are done"
    if stop.steps is not None and step >= stop.steps:
        return f"{stop.steps} steps are done"
    return None


def done_after_epoch(stop: Stop, metrics: dict[str, float], best: Best) -> str | None:
    """Why an epoch with these metrics was the last one, or None. Keeps `best` up to date."""
    target = stop.target
    if target is not None and _reaches(metrics[target.metric], target.value, target.mode):
        return f"{target.metric} reached {metrics[target.metric]:.6g} (target {target.value:g})"
    patience = stop.no_improvement
    if patience is None:
        return None
    value = metrics[patience.metric]
    if not math.isnan(value) and (best.value is None or _is_better(value, best.value, patience.mode)):
        best.value, best.epochs_since = value, 0
    else:
        best.epochs_since += 1
    if best.epochs_since >= patience.epochs:
        return f"{patience.metric} did not improve for {patience.epochs} epochs"
    return None


def _reaches(value: float, wanted: float, mode: str) -> bool:
    return value >= wanted if mode == "max" else value <= wanted


def _is_better(value: float, best: float, mode: str) -> bool:
    return value > best if mode == "max" else value < best
