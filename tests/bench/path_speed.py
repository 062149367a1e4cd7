"""Training through the portal against the same script under bare torchrun: samples per second, in interleaved pairs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.bare import run_bare
from tests.bench.goal import Goal
from tests.bench.installation import Installation

SCRIPT = "steady.py"
LEAST_SHARE = 0.98


@dataclass(frozen=True)
class Speed:
    """Samples per second, medians over the pairs; `share` is the ratio of the medians."""

    portal: float
    bare: float
    step_ms: float
    pairs: int

    @property
    def share(self) -> float:
        return self.portal / self.bare

    def goal(self) -> Goal:
        rates = f"{self.portal:,.0f} of {self.bare:,.0f} samples/s, {self.step_ms:.1f} ms a step, {self.pairs} pairs"
        limit = f"≥ {LEAST_SHARE:g} of bare torchrun's samples/s"
        return Goal("training through the portal", limit, f"{self.share:.3f} ({rates})", self.share >= LEAST_SHARE)


def measure_speed(
    portal: Installation, pairs: int, seconds: float, say: Callable[[str], None], *, cores: set[int] | None = None
) -> Speed:
    """Every other pair begins with the portal, so a drift of the machine favours neither. `cores` are the nodes'."""
    arguments = ("--seconds", str(seconds))
    bare: list[dict[str, float]] = []
    ours: list[dict[str, float]] = []

    def through_portal() -> None:
        job = portal.submit(SCRIPT, *arguments)
        portal.wait_end(job, 120 + 2 * seconds)
        ours.append(portal.told_by(job))

    def without() -> None:
        bare.append(run_bare(SCRIPT, *arguments, seconds=120 + 2 * seconds, cores=cores))

    for number in range(pairs):
        for run in (without, through_portal) if number % 2 == 0 else (through_portal, without):
            run()
        mine, other = ours[-1]["samples_per_second"], bare[-1]["samples_per_second"]
        say(f"pair {number + 1} of {pairs}: bare {other:,.0f} samples/s, portal {mine:,.0f} ({mine / other:.3f})")
    return Speed(
        statistics.median(told["samples_per_second"] for told in ours),
        statistics.median(told["samples_per_second"] for told in bare),
        statistics.median(told["step_ms"] for told in bare),
        pairs,
    )
