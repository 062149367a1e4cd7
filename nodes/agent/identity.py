"""Who this node is: an id made once, the portal's address and the node's token. One agent per state folder."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from nodes.agent.files import read_json, write_bytes, write_json

NODE, TOKEN, LOCK = "node.json", "token", "agent.lock"


class NotJoined(Exception):
    """The state folder holds no node; the sentence says how to get one."""


class AlreadyRunning(Exception):
    """Another agent uses this state folder."""


@dataclass(frozen=True)
class Identity:
    node_id: UUID
    portal: str
    name: str
    token: str


def default_state() -> Path:
    return Path("/var/lib/trainyard") if os.geteuid() == 0 else Path.home() / ".trainyard-node"


def prepare(state: Path) -> None:
    """Passable for launches that run as other users, readable for nobody but us."""
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o711)


def node_id_of(state: Path) -> UUID:
    """Made at the first call; host names may repeat, this does not."""
    known = read_json(state / NODE)
    if known is None:
        known = {"node_id": str(uuid4())}
        write_json(state / NODE, known)
    return UUID(known["node_id"])


def save(state: Path, identity: Identity) -> None:
    write_bytes(state / TOKEN, identity.token.encode(), mode=0o600)
    write_json(
        state / NODE, {"node_id": str(identity.node_id), "portal": identity.portal, "name": identity.name}, mode=0o600
    )


def load(state: Path) -> Identity:
    known = read_json(state / NODE)
    try:
        token = (state / TOKEN).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        token = ""
    if known is None or not token or "portal" not in known:
        raise NotJoined(
            f"{state} holds no node yet. An admin makes a code with `manage.py join-code`; then run"
            f" `python -m nodes.agent join URL CODE --state {state}`."
        )
    return Identity(UUID(known["node_id"]), known["portal"], known["name"], token)


def lock(state: Path) -> int:
    """Held until the process ends. AlreadyRunning names the other process."""
    handle = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = os.read(handle, 32).decode("ascii", "replace").strip()
        os.close(handle)
        raise AlreadyRunning(f"Another agent (process {other}) already uses {state}.") from None
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    return handle
