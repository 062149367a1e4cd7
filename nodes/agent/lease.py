"""How long a supervisor goes on without hearing of the portal; by its own boot clock alone. Stdlib only."""

from __future__ import annotations

from nodes.agent.procs import boot_seconds
from nodes.agent.workdir import Workdir, exchanged_at_boot


class Lease:
    """Renewed by each exchange of the agent. Before the first one it counts from the supervisor's own start."""

    def __init__(self, folder: Workdir, seconds: float) -> None:
        self._launches = folder.place.parent
        self._heard_at = boot_seconds()
        self.seconds = seconds

    def heard_at(self) -> float:
        """Never goes back: one unreadable look at the file must not end a launch."""
        self._heard_at = max(self._heard_at, exchanged_at_boot(self._launches) or 0.0)
        return self._heard_at

    def age(self) -> float:
        return boot_seconds() - self.heard_at()

    def is_half_over(self) -> bool:
        return self.age() > self.seconds / 2

    def has_run_out(self) -> bool:
        return self.age() > self.seconds

    def sentence(self) -> str:
        return (
            f"This node heard nothing from the portal for {self.age():.0f} s, longer than the lease of"
            f" {self.seconds:.0f} s; the job may run elsewhere by now."
        )
