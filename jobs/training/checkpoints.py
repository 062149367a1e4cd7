"""Saving and restoring a training so that it goes on as if nothing had happened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import trainyard
from torch import nn

from jobs.training import features
from jobs.training.data import Samples
from jobs.training.settings import Refused
from jobs.training.stopping import Best

STATE_FILE = "state.pt"
ENCODER_FILE = "encoder.json"


@dataclass
class Position:
    """How far the training is. `row` counts rows of the epoch's order, so the number of ranks may change on resume."""

    epoch: int = 0
    row: int = 0
    step: int = 0
    elapsed_seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # loss, correct, rows of this epoch so far
    best: Best = field(default_factory=Best)


def save(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    position: Position,
    samples: Samples,
    metrics: dict[str, float],
) -> None:
    """Called on the first rank only; `position.sums` must hold what all ranks added."""
    state = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "position": asdict(position),
        "random": torch.get_rng_state(),
    }
    with trainyard.checkpoint(position.step, metrics) as folder:
        torch.save(state, folder / STATE_FILE)
        described = {"label": samples.label, "classes": samples.classes, "inputs": features.as_json(samples.encoder)}
        (folder / ENCODER_FILE).write_text(json.dumps(described), encoding="utf-8")


def restore(
    folder: Path, model: nn.Module, optimiser: torch.optim.Optimizer, samples: Samples, device: torch.device
) -> Position:
    """Fills model and optimiser; learning rate and weight decay stay those of the spec, which may have changed.

    Refused when the checkpoint belongs to other classes or another network."""
    described = json.loads((folder / ENCODER_FILE).read_text("utf-8"))
    if described["classes"] != samples.classes:
        raise Refused("The checkpoint was trained on other classes than this dataset has. Start without it.")
    state: dict[str, Any] = torch.load(folder / STATE_FILE, map_location=device, weights_only=True)
    wished = {name: optimiser.param_groups[0][name] for name in ("lr", "weight_decay")}
    try:
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
    except (RuntimeError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise Refused(f"The checkpoint does not fit this network or optimiser ({reason}).") from None
    optimiser.param_groups[0].update(wished)
    torch.set_rng_state(state["random"].cpu())
    position = dict(state["position"])
    return Position(**{**position, "best": Best(**position["best"])})
