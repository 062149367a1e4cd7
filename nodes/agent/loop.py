"""The agent: one loop of exchanges, with threads beside it for data. Control never waits behind data."""

from __future__ import annotations

import logging
import os
import platform
import random
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import psutil

from nodes.agent import identity, kill, sandbox
from nodes.agent.celery_child import CeleryChild
from nodes.agent.checkpoints import Keeper
from nodes.agent.client import CONTROL_TIMEOUT, Portal, PortalDown, Refused
from nodes.agent.devices.base import Devices, Driver
from nodes.agent.devices.cpu import CpuSlots
from nodes.agent.devices.nvidia import Nvidia
from nodes.agent.exchange import Session
from nodes.agent.fetch import Fetcher
from nodes.agent.network import guess_address, interface_of
from nodes.agent.registry import NodeSetting, Registry
from nodes.agent.streams import Shipper
from nodes.agent.usage import Sampler
from nodes.agent.wake import Doorbell
from nodes.messages import NodeFacts

log = logging.getLogger(__name__)
VERSION = "0.1.0"
LEAST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 10.0


@dataclass(frozen=True)
class Setting:
    state: Path
    address: str | None = None
    cpu_slots: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    with_celery: bool = True


class Agent:
    def __init__(self, setting: Setting) -> None:
        """NotJoined or AlreadyRunning when it cannot be this node."""
        identity.prepare(setting.state)
        self._lock = identity.lock(setting.state)
        self.me = identity.load(setting.state)
        self._setting = setting
        self._ending = False
        self._doorbell = Doorbell(setting.state)
        self._celery = CeleryChild(self._doorbell.path)
        self._fetcher = Fetcher(self.me.portal)
        self._sampler = self._make_sampler()
        self._node = self._probe()
        self._registry = Registry(setting.state, self._node, self._fetcher.start)
        self._session = self._make_session()
        self._shipper = Shipper(self._registry, Portal(self.me.portal, self.me.token))
        self._helpers = (self._shipper, Keeper(self._registry, Portal(self.me.portal, self.me.token)))

    def run(self) -> None:
        """Until SIGTERM or SIGINT. Launches and their supervisors go on; the next agent adopts them."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        log.info("node %s (%s) at %s, portal %s", self.me.name, self.me.node_id, self._node.address, self.me.portal)
        log.info("sandbox %s: %s", self._node.sandbox.level, self._node.sandbox.note)
        self._registry.adopt()
        for helper in self._helpers:
            helper.start()
        failures = 0
        try:
            while not self._ending:
                began = time.monotonic()
                pause, failures = self._exchange(failures)
                self._doorbell.wait(pause)
                # A storm of knocks must not become a storm of requests.
                time.sleep(max(0.0, LEAST_PAUSE_SECONDS - (time.monotonic() - began)))
        finally:
            self._close()

    def _exchange(self, failures: int) -> tuple[float, int]:
        """How long to wait until the next one, and how many have failed in a row."""
        self._celery.look_after()
        try:
            outcome = self._session.exchange()
        except (PortalDown, Refused) as error:
            if failures in (0, 10) or failures % 100 == 0:
                log.warning("no exchange with %s: %s", self.me.portal, error)
            return min(LONGEST_PAUSE_SECONDS, 0.25 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0), failures + 1
        if failures:
            log.info("the portal answers again")
        self._shipper.every_seconds = outcome.ship_every_seconds
        if outcome.broker is not None and self._setting.with_celery:
            self._celery.use(outcome.broker)
        return outcome.next_after_seconds, 0

    def _end(self, *_: object) -> None:
        self._ending = True
        self._doorbell.ring()

    def _close(self) -> None:
        self._fetcher.close()
        for helper in self._helpers:
            helper.close()
        self._sampler.close()
        self._celery.close()
        self._doorbell.close()
        os.close(self._lock)

    # --- what kind of node this is ----------------------------------------------------------------------------------

    def _make_sampler(self) -> Sampler:
        drivers: list[Driver] = [Nvidia()]
        if self._setting.cpu_slots:
            drivers.append(CpuSlots(self.me.node_id, self._setting.cpu_slots))
        self._devices = Devices(drivers)
        return Sampler(self._devices.report)

    def _probe(self) -> NodeSetting:
        portal = urlsplit(self.me.portal)
        address = self._setting.address or guess_address(portal.hostname or "127.0.0.1", portal.port or 443)
        box = sandbox.probe(self._setting.state)
        cgroup = kill.probe_cgroup()
        how: Literal["cgroup2", "pidns", "group"] = (
            "cgroup2" if cgroup else "pidns" if box.has_pid_namespace else "group"
        )
        return NodeSetting(address, interface_of(address), box, cgroup, how, self._devices.environment)

    def _make_session(self) -> Session:
        return Session(
            node_id=self.me.node_id,
            address=self._node.address,
            facts=self._facts(),
            portal=Portal(self.me.portal, self.me.token, timeout=CONTROL_TIMEOUT),
            registry=self._registry,
            sampler=self._sampler,
        )

    def _facts(self) -> NodeFacts:
        shm = Path("/dev/shm")  # noqa: S108 - asked for its size
        return NodeFacts(
            cpu_count=os.cpu_count() or 1,
            memory_bytes=psutil.virtual_memory().total,
            shm_bytes=shutil.disk_usage(shm).total if shm.exists() else 0,
            disk_free_bytes=shutil.disk_usage(self._setting.state).free,
            python=platform.python_version(),
            agent_version=VERSION,
            sandbox=self._node.sandbox.level,
            sandbox_note=self._node.sandbox.note,
            kill=self._node.kill,
            labels=self._setting.labels,
        )
