"""What persons and teams use against their ceilings, within one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from jobs.scheduler.values import Account, Ceiling, RunningJob, Snapshot, WaitingJob, Why


class Obstacle(NamedTuple):
    why: Why
    account: Account  # whose ceiling
    limit: int
    used: int


class Use:
    """Live devices and jobs by account; starts of the pass are added as they are decided."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._ceilings = snapshot.ceilings
        self._devices: Counter[Account] = Counter()
        self._jobs: Counter[Account] = Counter()
        for job in snapshot.running:
            self._count(job, job.device_count)

    def add(self, job: WaitingJob) -> None:
        self._count(job, job.need.device_count)

    def obstacle(self, job: WaitingJob) -> Obstacle | None:
        """None when there is room. Teams are named first."""
        if not job.is_counted:
            return None
        for account in accounts_of(job):
            ceiling = self._ceilings.get(account, Ceiling())
            devices, jobs = self._devices[account], self._jobs[account]
            wants = job.need.device_count
            if ceiling.devices is not None and wants and devices + wants > ceiling.devices:
                return Obstacle(Why.QUOTA_DEVICES, account, ceiling.devices, devices)
            if ceiling.jobs is not None and jobs + 1 > ceiling.jobs:
                return Obstacle(Why.QUOTA_JOBS, account, ceiling.jobs, jobs)
        return None

    def _count(self, job: WaitingJob | RunningJob, devices: int) -> None:
        if job.is_counted:
            for account in accounts_of(job):
                self._devices[account] += devices
                self._jobs[account] += 1


def accounts_of(job: WaitingJob | RunningJob) -> Iterator[Account]:
    if job.team is not None:
        yield "team", job.team
    yield "person", job.owner
