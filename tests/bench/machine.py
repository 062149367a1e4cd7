"""On what a benchmark ran: figures without it say nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def machine() -> str:
    """CPU, cores, memory, Linux, Python, torch, and how busy the machine was just before."""
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    parts = [
        _cpu(),
        f"{os.cpu_count()} cores",
        f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        f"Linux {platform.release().split('-')[0]}",
        f"Python {platform.python_version()}",
        f"torch {_version('torch')}",
        f"load {load}",
    ]
    return ", ".join(parts)


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
