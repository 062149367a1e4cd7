"""`python -m nodes.agent join URL CODE` once, then `python -m nodes.agent run`. Options: --help."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from nodes.agent import identity
from nodes.agent.client import Portal, PortalDown, Refused
from nodes.agent.identity import Identity
from nodes.agent.loop import Agent, Setting
from nodes.agent.network import guess_address
from nodes.messages import JoinRequest


def main() -> int:
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    state = (arguments.state or identity.default_state()).expanduser().resolve()
    try:
        if arguments.command == "join":
            return _join(state, arguments)
        Agent(
            Setting(state, arguments.address, arguments.cpu_slots, dict(arguments.label), not arguments.no_celery)
        ).run()
    except (identity.NotJoined, identity.AlreadyRunning, PortalDown, Refused) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nodes.agent", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--state", type=Path, default=_from_environment("TRAINYARD_NODE_STATE"),
        help="folder of this node's id, token and launches (TRAINYARD_NODE_STATE)",
    )  # fmt: skip
    common.add_argument(
        "--address", type=_address, default=_from_environment("TRAINYARD_NODE_ADDRESS"),
        help="the IP address at which other nodes reach this one (TRAINYARD_NODE_ADDRESS)",
    )  # fmt: skip
    run = commands.add_parser("run", parents=[common], help="be a node of the portal until stopped")
    run.add_argument(
        "--cpu-slots", type=_slots, default=_from_environment("TRAINYARD_CPU_SLOTS") or "0",
        help="devices to offer without an accelerator (TRAINYARD_CPU_SLOTS)",
    )  # fmt: skip
    run.add_argument("--label", type=_label, action="append", default=[], metavar="NAME=VALUE")
    run.add_argument("--no-celery", action="store_true", help="no wake-ups: orders come with the next exchange")
    join = commands.add_parser("join", parents=[common], help="make this machine a node, with a one-time code")
    join.add_argument("url", help="the portal's address, such as https://portal.example")
    join.add_argument("code", help="from `manage.py join-code`; '-' reads it from standard input")
    return parser


def _join(state: Path, arguments: argparse.Namespace) -> int:
    identity.prepare(state)
    url = urlsplit(arguments.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        print(f"{arguments.url!r} is no portal's address; give one such as https://portal.example", file=sys.stderr)  # noqa: T201
        return 2
    code = sys.stdin.readline().strip() if arguments.code == "-" else arguments.code
    handle = identity.lock(state)
    address = arguments.address or guess_address(url.hostname, url.port or 443)
    portal = Portal(arguments.url)
    request = JoinRequest(code=code, node_id=identity.node_id_of(state), hostname=socket.gethostname(), address=address)
    reply = portal.join(request)
    identity.save(state, Identity(reply.node_id, portal.url, reply.name, reply.token))
    os.close(handle)
    print(f"This machine is now the node '{reply.name}'. Start it with: python -m nodes.agent run --state {state}")  # noqa: T201
    return 0


def _from_environment(name: str) -> str | None:
    """Argparse runs a default that is text through the option's own check."""
    return os.environ.get(name) or None


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address") from None


def _slots(text: str) -> int:
    if not text.isdigit() or not 0 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1024")
    return int(text)


def _label(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
