"""The processes of a training as one: joining, adding up, agreeing. With a single process all of it is free."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

JOIN_SECONDS = 60


@dataclass(frozen=True)
class Ranks:
    rank: int
    world_size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model whose gradients are averaged over all ranks."""
        if self.world_size == 1:
            return model
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def total(self, values: list[float]) -> list[float]:
        """Sums over all ranks, the same on each. A collective."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def greatest(self, values: list[float]) -> list[float]:
        """The greatest of all ranks, so that they agree. A collective."""
        return self._reduce(values, dist.ReduceOp.MAX)

    def _reduce(self, values: list[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if self.world_size == 1:
            return values
        shared = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(shared, op=operation)
        return list(shared.tolist())


def join_ranks() -> Ranks:
    """From the launcher's environment; waits at most `JOIN_SECONDS` for the others."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    if world_size > 1:
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=JOIN_SECONDS))
    return Ranks(rank, world_size, device)


def leave_ranks(ranks: Ranks) -> None:
    if ranks.world_size > 1:
        dist.destroy_process_group()
