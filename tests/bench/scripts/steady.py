"""Data-parallel training whose steps take a few milliseconds, so that whatever disturbs it shows. Also runs bare.

    steady.py --seconds 8 [--warm-up 2]

Prints one JSON line when the first step is done (moments, in seconds since 1970) and one at the end (samples/s).
Points are reported at every step where there is a portal to report to, and nothing is reported where there is none.
"""

import argparse
import json
import time

began = time.time()

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402

try:
    from trainyard import report
except ImportError:

    def report(step, **values):
        """Off the cluster and without the module there is nobody to tell."""


BATCH, INPUTS, HIDDEN, CLASSES = 256, 64, 256, 10


class Trainer:
    def __init__(self):
        torch.manual_seed(distributed.get_rank())
        layers = [
            nn.Linear(INPUTS, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, CLASSES),
        ]
        self.model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.inputs, self.labels = torch.randn(BATCH, INPUTS), torch.randint(CLASSES, (BATCH,))
        self.steps = 0

    def train_for(self, seconds):
        """How many steps; all ranks stop at the same one, by rank 0's clock asked every 20 steps."""
        deadline, before = time.perf_counter() + seconds, self.steps
        go_on = torch.ones(1)
        while go_on:
            for _ in range(20):
                self.step()
            go_on.fill_(time.perf_counter() < deadline)
            distributed.broadcast(go_on, 0)
        return self.steps - before

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        loss.backward()
        self.optimiser.step()
        self.steps += 1
        report(self.steps, loss=loss.item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--warm-up", type=float, default=2.0)
    arguments = parser.parse_args()
    imported = time.time()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    joined = time.time()
    trainer = Trainer()
    trainer.step()
    tell(began=began, imported=imported, joined=joined, first_step=time.time())
    trainer.train_for(arguments.warm_up)
    started = time.perf_counter()
    steps = trainer.train_for(arguments.seconds)
    seconds = time.perf_counter() - started
    tell(samples_per_second=steps * BATCH * distributed.get_world_size() / seconds, step_ms=seconds / steps * 1000)
    distributed.destroy_process_group()


def tell(**values):
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
