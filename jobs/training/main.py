"""The recipe `tabular-classifier`: what every rank of such a job runs.

    torchrun --nproc-per-node=2 -m jobs.training.main       (in a launch's folder, or with TRAINYARD_FOLDER set)

Exit code 0: ended well, or stopped as asked (then without the completion marker); 2: refused, and both the log and
result.json say why.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trainyard

from jobs.training.data import Samples, load_samples
from jobs.training.settings import Recipe, Refused, load_recipe

if TYPE_CHECKING:  # torch takes seconds to import: what is wrong with spec or data is said before
    from jobs.training.checkpoints import Position
    from jobs.training.loop import Outcome
    from jobs.training.ranks import Ranks

EXIT_REFUSED = 2


def main() -> int:
    try:
        recipe = load_recipe(trainyard.spec())
        samples = load_samples(recipe, trainyard.dataset().path, trainyard.world_size())
        outcome = train(recipe, samples)
    except (Refused, FileNotFoundError) as error:
        print(f"refused: {error}", flush=True)  # noqa: T201
        write_result({"kind": "training", "refused": str(error)})
        return EXIT_REFUSED
    write_result(
        {
            "kind": "training",
            "reason": outcome.reason,
            "is_complete": outcome.is_complete,
            "epochs": outcome.position.epoch,
            "steps": outcome.position.step,
            "metrics": {name: _json_number(value) for name, value in outcome.metrics.items()},
            "classes": samples.classes[:100],
        }
    )
    if outcome.is_complete:
        trainyard.complete()
    return 0


def train(recipe: Recipe, samples: Samples) -> Outcome:
    from jobs.training.ranks import join_ranks, leave_ranks

    ranks = join_ranks()
    try:
        outcome = prepare(recipe, samples, ranks)
    finally:
        leave_ranks(ranks)
    return outcome


def prepare(recipe: Recipe, samples: Samples, ranks: Ranks) -> Outcome:
    """Model, optimiser and, where there is one, the checkpoint to go on from; then the loop."""
    from jobs.training.checkpoints import Position, restore
    from jobs.training.loop import Training, say
    from jobs.training.model import build_model, build_optimiser

    parameters = recipe.spec.parameters
    model = build_model(samples.features.shape[1], len(samples.classes), parameters).to(ranks.device)
    optimiser = build_optimiser(model, parameters)
    start = trainyard.latest_checkpoint()
    position = restore(start.path, model, optimiser, samples, ranks.device) if start else Position()
    if start:
        say(f"goes on from the checkpoint of step {start.step}")
    training = Training(recipe.spec, samples, ranks, model, ranks.wrap(model), optimiser, position)
    tell_share(samples, ranks, position)
    outcome = training.run()
    say(f"ends after {outcome.position.step} steps: {outcome.reason}")
    return outcome


def tell_share(samples: Samples, ranks: Ranks, position: Position) -> None:
    """Which part of the data this rank learns from: a line for the log, a point for the job's page."""
    mine = len(range(ranks.rank, samples.train_count, ranks.world_size))
    trainyard.report(position.step, rows=mine)
    print(  # noqa: T201
        f"rank {ranks.rank} of {ranks.world_size} on {ranks.device}:"
        f" about {mine} of {samples.train_count} training rows per epoch, {samples.validation_count} validation rows,"
        f" {samples.features.shape[1]} inputs, {len(samples.classes)} classes of '{samples.label}',"
        f" {samples.dropped} rows without label left out",
        flush=True,
    )


def write_result(result: dict[str, Any]) -> None:
    """result.json, by the first rank only; it travels to the portal with the launch's exit."""
    if trainyard.rank() != 0:
        return
    path: Path = trainyard.folder() / "result.json"
    unfinished = path.with_name(".result.json.unfinished")
    unfinished.write_text(json.dumps(result, allow_nan=False), encoding="utf-8")
    os.replace(unfinished, path)  # noqa: PTH105


def _json_number(value: float) -> float | str:
    return value if abs(value) < float("inf") else str(value)


if __name__ == "__main__":
    sys.exit(main())
