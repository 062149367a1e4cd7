"""The node's own address and the interface that carries it."""

from __future__ import annotations

import ipaddress
import socket

import psutil


def guess_address(portal_host: str, portal_port: int) -> str:
    """The address this machine uses to reach the portal; sends nothing."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(portal_host, portal_port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def interface_of(address: str) -> str:
    """The interface gloo and NCCL are bound to; all of 127.0.0.0/8 lives on the loopback one."""
    if ipaddress.ip_address(address).is_loopback:
        return "lo"
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == address for entry in addresses):
            return name
    return "lo"
