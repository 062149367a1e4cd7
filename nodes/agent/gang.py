"""Reserved ports, and the one connection between each pair of nodes before training starts. Stdlib only."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from nodes.agent.procs import boot_seconds

PAIR_SECONDS = 60.0
GREETING_SECONDS = 1.0
_LOWEST = 20_000


class NoFreePort(OSError):
    """Nothing to bind outside the ephemeral range."""


class PeerUnreachable(Exception):
    """Says which node could not be reached, or never reached us."""


def reserve_ports(address: str, count: int) -> list[socket.socket]:
    """Listening sockets on ports the kernel never gives to outgoing connections; held until the launcher needs them."""
    held: list[socket.socket] = []
    candidates = _candidates()
    random.shuffle(candidates)
    for port in candidates:
        if len(held) == count:
            return held
        listener = _listen(address, port)
        if listener is not None:
            held.append(listener)
    for listener in held:
        listener.close()
    raise NoFreePort(f"no {count} free ports on {address} outside the ephemeral range")


def _candidates() -> list[int]:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    low, high = map(int, text.split())
    return [port for port in range(_LOWEST, 65_536) if not low <= port <= high] or list(range(1_024, _LOWEST))


def _listen(address: str, port: int) -> socket.socket | None:
    """Taken on any address counts as taken: launchers like to listen on all of them."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as everywhere:
        everywhere.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        everywhere.bind(("", port))
        everywhere.close()
        listener = socket.socket(family)
        try:
            # Greetings leave no waiting connection at this end: the peer closes first.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(256)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        return listener
    return None


@dataclass
class PairCheck:
    """Greets every peer and waits to be greeted by each. `greeting` is the same for the whole attempt of a job."""

    listener: socket.socket | None
    greeting: str
    rank: int
    peers: list[dict[str, object]] = field(default_factory=list)  # facts by node rank, ourselves included
    greeted_us: set[int] = field(default_factory=set)
    reached: set[int] = field(default_factory=set)

    def answer(self) -> None:
        """Take every greeting that waits; called also before GO, when we do not know our peers yet."""
        while self.listener is not None:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, ValueError):
                said, _, rank = _read_line(connection).rpartition(" ")
                if said == self.greeting:
                    self.greeted_us.add(int(rank))

    def is_done(self) -> bool:
        if self.listener is None:
            return True  # a launch without ports has nothing to meet by
        others = {rank for rank in range(len(self.peers)) if rank != self.rank}
        return others <= self.greeted_us and others <= self.reached

    def step(self) -> None:
        """One round: answer, then try each peer that was not reached yet."""
        self.answer()
        for rank, facts in enumerate(self.peers):
            if rank != self.rank and rank not in self.reached and self._greet(facts):
                self.reached.add(rank)

    def _greet(self, facts: dict[str, object]) -> bool:
        ports = facts.get("ports")
        if not isinstance(ports, list) or not ports:
            return False
        with contextlib.suppress(OSError), socket.create_connection((str(facts["address"]), ports[0]), 1.0) as peer:
            peer.sendall(f"{self.greeting} {self.rank}\n".encode())
            return True
        return False

    def complaint(self) -> str:
        missing = [rank for rank in range(len(self.peers)) if rank != self.rank]
        unreached = [self._name(rank) for rank in missing if rank not in self.reached]
        silent = [self._name(rank) for rank in missing if rank not in self.greeted_us and rank in self.reached]
        parts = [f"could not connect to {', '.join(unreached)}"] if unreached else []
        parts += [f"no connection came from {', '.join(silent)}"] if silent else []
        return f"Within {PAIR_SECONDS:.0f} s this node {' and '.join(parts)}: look at the firewall between the nodes."

    def _name(self, rank: int) -> str:
        facts = self.peers[rank]
        ports = facts.get("ports")
        return f"node {rank} ({facts.get('address')}:{ports[0] if isinstance(ports, list) and ports else '?'})"


def _read_line(connection: socket.socket) -> str:
    """TimeoutError when the whole line takes longer than GREETING_SECONDS, however steadily it drips in."""
    deadline = time.monotonic() + GREETING_SECONDS
    data = b""
    while not data.endswith(b"\n") and len(data) < 200:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the greeting took too long")
        connection.settimeout(left)
        more = connection.recv(200)
        if not more:
            break
        data += more
    return data.decode("ascii", "replace").rstrip("\n")


def pair_deadline() -> float:
    return boot_seconds() + PAIR_SECONDS


def pause() -> None:
    time.sleep(0.05)
