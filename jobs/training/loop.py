"""The training loop.

Every rank makes the same steps on its own share of each batch and averages the gradients; whatever ends or interrupts
the loop is agreed on by all ranks first, at the same step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
import trainyard
from torch import nn
from torch.nn import functional

from jobs.spec import JobSpec
from jobs.training import checkpoints
from jobs.training.checkpoints import Position
from jobs.training.data import Samples, batches, share
from jobs.training.ranks import Ranks
from jobs.training.stopping import done_after_epoch, done_before_step

LOOK_SECONDS = 0.25  # how often the ranks ask each other; in between a step costs nothing but itself
EVALUATION_ROWS = 65_536
STOPPED, CHECKPOINT_WANTED, STEPS_BETWEEN = 0, 1, 2  # what they tell each other


@dataclass
class Outcome:
    reason: str
    is_complete: bool  # False when the portal asked to stop: there is more to do
    metrics: dict[str, float]
    position: Position


@dataclass
class Training:
    spec: JobSpec
    samples: Samples
    ranks: Ranks
    model: nn.Module  # as saved
    learner: nn.Module  # the same, averaging gradients over the ranks
    optimiser: torch.optim.Optimizer
    position: Position
    metrics: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parameters, world_size = self.spec.parameters, self.ranks.world_size
        self.batch_rows = parameters.batch_size * (world_size if parameters.batch_is == "per_process" else 1)
        self.features = torch.from_numpy(self.samples.features).to(self.ranks.device)
        self.labels = torch.from_numpy(self.samples.labels).to(self.ranks.device)
        self.started_at = time.monotonic() - self.position.elapsed_seconds
        self.saved_at = self.looked_at = time.monotonic()
        self.rows_since_look = self.steps_since_look = 0
        self.steps_between_looks = 1
        self.has_warned = False

    def run(self) -> Outcome:
        """Train until a condition of the spec or the portal ends it, and leave a checkpoint of the end."""
        while (reason := done_before_step(self.spec.stop, self.position.epoch, self.position.step)) is None:
            for rows in self._rest_of_epoch():
                self._step(rows)
                stopped = self._look_around()
                if stopped is not None:
                    return self._end(stopped.text, is_complete=stopped.is_complete)
                if self._has_made_all_steps():
                    break
            else:
                self._finish_epoch()
                reason = done_after_epoch(self.spec.stop, self.metrics, self.position.best)
                if reason is not None:
                    break
        return self._end(reason, is_complete=True)

    def _rest_of_epoch(self) -> Iterator[np.ndarray]:
        seed, at = self.spec.parameters.seed, self.position
        return batches(self.samples.train_count, self.batch_rows, seed=seed, epoch=at.epoch, start=at.row)

    def _step(self, rows: np.ndarray) -> None:
        """One step on this rank's share of the batch; the sums' gradients average to that of the batch's mean loss."""
        mine = torch.from_numpy(share(rows, self.ranks.rank, self.ranks.world_size)).to(self.ranks.device)
        labels = self.labels[mine]
        self.optimiser.zero_grad(set_to_none=True)
        scores = self.learner(self.features[mine])
        loss_sum = functional.cross_entropy(scores, labels, reduction="sum")
        (loss_sum * (self.ranks.world_size / len(rows))).backward()
        self.optimiser.step()
        correct = (scores.detach().argmax(dim=1) == labels).sum()
        loss, right = torch.stack([loss_sum.detach(), correct]).tolist()
        self._count(rows, len(mine), loss, right)

    def _count(self, rows: np.ndarray, mine: int, loss_sum: float, correct: float) -> None:
        at = self.position
        at.step += 1
        at.row += len(rows)
        at.sums = [at.sums[0] + loss_sum, at.sums[1] + correct, at.sums[2] + mine]
        self.rows_since_look += len(rows)
        self.steps_since_look += 1
        if not mine:
            return
        loss = loss_sum / mine
        if self.ranks.is_first:
            trainyard.report(at.step, loss=loss, accuracy=correct / mine)
        else:
            trainyard.report(at.step, loss=loss)
        if not math.isfinite(loss) and not self.has_warned:
            self.has_warned = True
            say(f"warning: the loss is {loss} at step {at.step}; a smaller learning rate may help. Training goes on.")

    def _look_around(self) -> Stopped | None:
        """Now and then: does anybody want to stop, or a checkpoint? All ranks get the same answer at the same step."""
        if self.steps_since_look < self.steps_between_looks:
            return None
        now = time.monotonic()
        asked = trainyard.should_stop()
        wishes = [0.0, float(trainyard.wants_checkpoint()), 0.0]
        if asked:
            wishes[STOPPED] = 2.0
        if self.ranks.is_first:
            wishes = self._first_ranks_wishes(wishes, now)
        stopped, wanted, steps = self.ranks.greatest(wishes)
        self.steps_between_looks = int(steps)
        self.looked_at, self.rows_since_look, self.steps_since_look = now, 0, 0
        if stopped > 1:
            return Stopped(f"stopped: {asked or 'the portal asked another rank'}", is_complete=False)
        if stopped:
            return Stopped(f"{self.spec.stop.minutes:g} minutes are over", is_complete=True)
        if wanted:
            self._save()
        return None

    def _first_ranks_wishes(self, wishes: list[float], now: float) -> list[float]:
        """The clock of the first rank counts: for minutes, for checkpoints, for how often to look."""
        seconds = max(now - self.looked_at, 1e-6)
        minutes, every = self.spec.stop.minutes, self.spec.checkpoint.every_seconds
        is_over = minutes is not None and now - self.started_at >= minutes * 60
        is_due = now - self.saved_at >= every
        steps = min(max(int(self.steps_since_look * LOOK_SECONDS / seconds), 1), 100_000)
        trainyard.report(self.position.step, samples_per_second=self.rows_since_look / seconds)
        trainyard.progress(self._share_done(now))
        return [max(wishes[STOPPED], float(is_over)), max(wishes[CHECKPOINT_WANTED], float(is_due)), float(steps)]

    def _share_done(self, now: float) -> float:
        """0 to 1, by whichever condition of the spec will be met first at this pace."""
        stop, at = self.spec.stop, self.position
        shares = [0.0]
        if stop.epochs is not None:
            shares.append((at.epoch + at.row / self.samples.train_count) / stop.epochs)
        if stop.steps is not None:
            shares.append(at.step / stop.steps)
        if stop.minutes is not None:
            shares.append((now - self.started_at) / (stop.minutes * 60))
        return min(1.0, max(shares))

    def _has_made_all_steps(self) -> bool:
        return self.spec.stop.steps is not None and self.position.step >= self.spec.stop.steps

    def _finish_epoch(self) -> None:
        self._measure()
        at = self.position
        at.epoch, at.row, at.sums = at.epoch + 1, 0, [0.0, 0.0, 0.0]

    def _measure(self) -> None:
        """Loss and accuracy of the epoch so far and of the validation rows, over all ranks."""
        loss, correct, rows, val_loss, val_correct = self.ranks.total([*self.position.sums, *self._validate()])
        count = self.samples.validation_count
        val_loss, val_accuracy = val_loss / count, val_correct / count
        self.metrics = {"val_loss": val_loss, "val_accuracy": val_accuracy}
        if rows:
            self.metrics |= {"loss": loss / rows, "accuracy": correct / rows}
        if self.ranks.is_first:
            at = self.position
            trainyard.report(at.step, val_loss=val_loss, val_accuracy=val_accuracy, epoch=at.epoch + 1)
            say(f"epoch {at.epoch + 1}, step {at.step}: " + ", ".join(f"{k} {v:.4f}" for k, v in self.metrics.items()))

    @torch.no_grad()
    def _validate(self) -> list[float]:
        """Loss sum and correct answers on this rank's share of the validation rows."""
        first = self.samples.train_count + self.ranks.rank
        features, labels = self.features[first :: self.ranks.world_size], self.labels[first :: self.ranks.world_size]
        loss = correct = 0.0
        for part, answers in zip(features.split(EVALUATION_ROWS), labels.split(EVALUATION_ROWS), strict=True):
            scores = self.model(part)
            loss += functional.cross_entropy(scores, answers, reduction="sum").item()
            correct += (scores.argmax(dim=1) == answers).sum().item()
        return [loss, correct]

    def _save(self) -> None:
        """The first rank saves; it gets the sums of all ranks, so that a resumed epoch ends with the same means."""
        at = self.position
        sums = self.ranks.total(at.sums)
        at.sums = sums if self.ranks.is_first else [0.0, 0.0, 0.0]
        at.elapsed_seconds = time.monotonic() - self.started_at
        if self.ranks.is_first:
            checkpoints.save(self.model, self.optimiser, at, self.samples, self.metrics)
            say(f"checkpoint of step {at.step} is saved")
        else:
            trainyard.checkpoint_is_saved_elsewhere()
        self.saved_at = time.monotonic()

    def _end(self, reason: str, *, is_complete: bool) -> Outcome:
        if is_complete and (self.position.row or not self.metrics):
            self._measure()
        if is_complete and self.ranks.is_first:
            trainyard.progress(1.0)
        self._save()
        return Outcome(reason, is_complete, self.metrics, self.position)


@dataclass(frozen=True)
class Stopped:
    text: str
    is_complete: bool


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201
