"""One exchange with the portal: what goes up, and what is done about what comes down."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from nodes.agent import procs, workdir
from nodes.agent.client import Portal
from nodes.agent.devices.nvidia import mark_foreign_use
from nodes.agent.registry import Registry
from nodes.agent.usage import Sampler, own_memory_bytes
from nodes.messages import BrokerLogin, DeviceReport, Exchange, NodeFacts, Phase, PlacementReport, Reply

log = logging.getLogger(__name__)
MEMORY_EVERY = 10  # exchanges between two looks at our own memory


@dataclass(frozen=True)
class Outcome:
    next_after_seconds: float
    ship_every_seconds: float
    broker: BrokerLogin | None


class Session:
    """From one start of the agent to its end: a session id, a counter, and facts that are told once."""

    def __init__(
        self, *, node_id: UUID, address: str, facts: NodeFacts, portal: Portal, registry: Registry, sampler: Sampler
    ) -> None:
        self._node_id, self._address, self._facts = node_id, address, facts
        self._portal, self._registry, self._sampler = portal, registry, sampler
        self._session = uuid4()
        self._boot_id = procs.boot_id()
        self._counter = 0
        self._facts_told = False
        self._memory = 0
        self._conflict: str | None = None

    def exchange(self) -> Outcome:
        """PortalDown or Refused when there was none; nothing is lost then."""
        message = self._message()
        taken_at = procs.boot_seconds()
        try:
            reply = self._portal.exchange(message)
        except Exception:
            self._sampler.put_back(list(message.usage), taken_at)
            raise
        _carry_out("noting the exchange", workdir.note_exchange, self._registry.launches.place)
        self._facts_told = not reply.resend_facts
        self._obey(reply)
        pause = 0.0 if reply.resend_facts else reply.next_after_seconds
        return Outcome(pause, reply.ship_every_seconds, reply.broker)

    def _message(self) -> Exchange:
        self._counter += 1
        if self._counter % MEMORY_EVERY == 1:
            self._memory = own_memory_bytes()
        return Exchange(
            node_id=self._node_id,
            boot_id=self._boot_id,
            session=self._session,
            counter=self._counter,
            sent_at=time.time(),
            hostname=socket.gethostname(),
            address=self._address,
            facts=None if self._facts_told else self._facts,
            devices=self._devices(),
            usage=self._sampler.take(),
            placements=self._reports(),
            agent_memory_bytes=self._memory,
        )

    def _devices(self) -> list[DeviceReport]:
        stuck = self._registry.stuck_devices()
        trouble = {
            "is_healthy": False,
            "trouble": "a process of an earlier launch hangs in the kernel; restart the machine",
        }
        devices = mark_foreign_use(self._sampler.devices, self._registry.devices_in_use())
        return [device.model_copy(update=trouble) if device.uuid in stuck else device for device in devices]

    def _reports(self) -> list[PlacementReport]:
        reports = []
        for placement in self._registry.all():
            _carry_out("looking after a launch", placement.look_after)
            report = placement.report()
            if not (placement.is_quarantined and report.phase is Phase.ENDED):
                reports.append(report)
        return reports

    def _obey(self, reply: Reply) -> None:
        """Stops before launches: an order that comes with its own stop must not start."""
        if reply.conflict and reply.conflict != self._conflict:
            log.error("this node id is in use twice, nothing is started: %s", reply.conflict)
        self._conflict = reply.conflict
        for order in reply.stops:
            # In a conflict a stop may be meant for the other one: no tombstone may speak for what runs there.
            if not reply.conflict or self._registry.get(order.token) is not None:
                _carry_out("a stop", self._registry.stop, order)
        for launch in [] if reply.conflict else reply.launches:
            _carry_out("a launch", self._registry.accept, launch)
        for go in reply.gos:
            _carry_out("a go", self._registry.go, go)
        for token in reply.checkpoints:
            placement = self._registry.get(token)
            if placement is not None:
                _carry_out("a wish for a checkpoint", placement.ask_for_checkpoint)
        for token in reply.quarantined:
            placement = self._registry.get(token)
            if placement is not None:
                _carry_out("a quarantine", placement.quarantine)
        for token in reply.closed:
            self._registry.close(token)


def _carry_out(what: str, do: Callable[..., None], *arguments: object) -> None:
    """A full disk, or whatever a job left, fails one order and not the node: the portal repeats it until reported."""
    try:
        do(*arguments)
    except Exception:
        log.exception("%s could not be carried out; it is tried again when it is repeated", what)
