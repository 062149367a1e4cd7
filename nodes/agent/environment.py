"""What a launch's processes see: placeholders filled in, a clean environment. Stdlib only."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodes.agent.procs import MARK

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where the machine's own libraries (CUDA among them) are found; all else of the agent's environment stays behind.
INHERITED = ("LD_LIBRARY_PATH", "CUDA_HOME", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


def placeholders(folder: Path, address: str, peers: list[dict[str, Any]]) -> dict[str, str]:
    known = {"${PYTHON}": sys.executable, "${ROOT}": str(ROOT), "${FOLDER}": str(folder), "${ADDRESS}": address}
    if peers:
        known["${MASTER_ADDR}"] = str(peers[0]["address"])
        known["${MASTER_PORT}"] = str(peers[0]["ports"][0]) if peers[0].get("ports") else "0"
    return known


def fill(text: str, known: Mapping[str, str]) -> str:
    """Only the names of the contract are replaced; any other `${...}` belongs to the person's own program."""
    for name, value in known.items():
        text = text.replace(name, value)
    return text


def launch_environment(
    launch: Mapping[str, Any], known: Mapping[str, str], *, interface: str, device_env: Mapping[str, str]
) -> dict[str, str]:
    folder = known["${FOLDER}"]
    base = {name: os.environ[name] for name in INHERITED if name in os.environ}
    base |= {
        "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "HOME": f"{folder}/home",
        "TMPDIR": f"{folder}/tmp",  # noqa: S108 - the launch's own
        "USER": "trainyard",
        "LOGNAME": "trainyard",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,
    }
    filled = {name: fill(value, known) for name, value in launch.get("env", {}).items()}
    fixed = {"TRAINYARD_FOLDER": folder, "TRAINYARD_ADDRESS": known["${ADDRESS}"], MARK: str(launch["token"])}
    # Secrets go in as they are: what the process sees is what the streams mask.
    return {**base, **device_env, **filled, **launch.get("secrets", {}), **fixed}
