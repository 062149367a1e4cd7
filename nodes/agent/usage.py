"""Samples of the node's own load, kept until the next exchange takes them along."""

from __future__ import annotations

import collections
import logging
import threading
from collections.abc import Callable

import psutil

from nodes.agent.procs import boot_seconds
from nodes.messages import DeviceReport, UsageSample

MOST_SAMPLES = 256
SAMPLE_SECONDS = 1.0
STALE_SECONDS = 20.0
log = logging.getLogger(__name__)


class Sampler:
    """A thread that looks once a second; `devices` is its newest device list, so that NVML is asked in one place."""

    def __init__(self, ask_devices: Callable[[], list[DeviceReport]]) -> None:
        self._ask = ask_devices
        self._samples: collections.deque[tuple[float, float, int, list[float | None]]] = collections.deque(
            maxlen=MOST_SAMPLES
        )
        self._stop = threading.Event()
        self._devices: list[DeviceReport] = []
        self._looked_at = boot_seconds()
        self._first_look = threading.Event()
        psutil.cpu_percent(None)
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._thread.start()
        self._first_look.wait(STALE_SECONDS)

    @property
    def devices(self) -> list[DeviceReport]:
        """The newest list. A driver that hangs makes its devices unhealthy, not the agent silent."""
        age = boot_seconds() - self._looked_at
        if age < STALE_SECONDS:
            return self._devices
        update = {"is_healthy": False, "trouble": f"the driver has not answered for {age:.0f} s"}
        return [device.model_copy(update=update) for device in self._devices]

    def take(self) -> list[UsageSample]:
        """All samples since the last call; `put_back` those that did not arrive."""
        now = boot_seconds()
        taken = [self._samples.popleft() for _ in range(len(self._samples))]
        return [
            UsageSample(age_seconds=max(0.0, now - at), cpu=cpu, memory_used_bytes=memory, devices=devices)
            for at, cpu, memory, devices in taken
        ]

    def put_back(self, samples: list[UsageSample], taken_at: float) -> None:
        for sample in reversed(samples):
            if len(self._samples) == MOST_SAMPLES:
                return
            at = taken_at - sample.age_seconds
            self._samples.appendleft((at, sample.cpu, sample.memory_used_bytes, sample.devices))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2)

    def _run(self) -> None:
        self._look()
        while not self._stop.wait(SAMPLE_SECONDS):
            self._look()
            memory = psutil.virtual_memory()
            self._samples.append(
                (
                    boot_seconds(),
                    min(1.0, psutil.cpu_percent(None) / 100),
                    memory.total - memory.available,
                    [device.utilisation for device in self._devices],
                )
            )

    def _look(self) -> None:
        try:
            self._devices = self._ask()
        except Exception:
            log.exception("the devices could not be asked")
            return
        self._looked_at = boot_seconds()
        self._first_look.set()


def own_memory_bytes() -> int:
    """Resident memory of the agent with its Celery child; supervisors belong to their launches."""
    me = psutil.Process()
    total = int(me.memory_info().rss)
    for child in me.children():
        try:
            total += int(child.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return total
