"""The network and its optimiser."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from jobs.spec import Optimiser, Parameters

SGD_MOMENTUM = 0.9


def build_model(inputs: int, classes: int, parameters: Parameters) -> nn.Module:
    """A multilayer perceptron; the same weights on every rank, from the seed."""
    torch.manual_seed(parameters.seed)
    widths = [inputs, *parameters.hidden, classes]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def build_optimiser(model: nn.Module, parameters: Parameters) -> torch.optim.Optimizer:
    if parameters.optimiser is Optimiser.SGD:
        return torch.optim.SGD(
            model.parameters(),
            lr=parameters.learning_rate,
            momentum=SGD_MOMENTUM,
            weight_decay=parameters.weight_decay,
        )
    return torch.optim.AdamW(model.parameters(), lr=parameters.learning_rate, weight_decay=parameters.weight_decay)
