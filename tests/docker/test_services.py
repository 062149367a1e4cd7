"""Images, units and compose file start services by one command; only the web port is published."""

from __future__ import annotations

import configparser
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

from portal.broker import LocalBroker

ROOT = Path(__file__).resolve().parent.parent.parent
ENTRY = "docker/entrypoint"
SERVICES = ("web", "master", "worker", "node")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A migrated site of its own with a real broker; yields the environment of its services."""
    folder = tmp_path_factory.mktemp("site")
    broker = LocalBroker(folder / "broker")
    process = broker.start()
    try:
        env = {
            **{k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE")},
            "TRAINYARD_VAR": str(folder),
            "REDIS_URL": broker.url,
            "TRAINYARD_PYTHON": sys.executable,
            "BIND": "127.0.0.1",
            "PORT": str(free_port()),
            "TRAINYARD_NODE_STATE": str(folder / "node"),
        }
        subprocess.run([ENTRY, "migrate"], cwd=ROOT, env=env, check=True, capture_output=True, timeout=120)
        yield env
    finally:
        process.kill()


class Service:
    def __init__(self, name: str, env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen([ENTRY, name], cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT)

    def wait_for(self, says, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if says(self.log.read_text(errors="replace")):
                return
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        raise AssertionError(self.log.read_text(errors="replace")[-3000:])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_web_answers(site, tmp_path):
    service = Service("web", site, tmp_path / "log")
    try:
        service.wait_for(lambda _: answers(f"http://127.0.0.1:{site['PORT']}/healthz"))
        service.wait_for(lambda _: answers(f"http://127.0.0.1:{site['PORT']}/readyz"))
    finally:
        service.stop()


def test_master_leads(site, tmp_path):
    service = Service("master", site, tmp_path / "log")
    try:
        service.wait_for(lambda _: "1" in leader_epoch(site))
    finally:
        assert service.stop() == 0


def leader_epoch(site) -> str:
    code = "from jobs.models import Leader; print(*Leader.objects.values_list('epoch', flat=True))"
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", code]
    return subprocess.run(command, cwd=ROOT, env=site, capture_output=True, text=True, check=True, timeout=60).stdout


def test_worker_takes_work(site, tmp_path):
    service = Service("worker", site, tmp_path / "log")
    try:
        service.wait_for(lambda text: "ready." in text)
    finally:
        service.stop()


def test_node_says_how_to_join(site, tmp_path):
    """A node that never joined ends with a sentence instead of looping silently."""
    service = Service("node", site, tmp_path / "log")
    assert service.process.wait(timeout=60) != 0
    assert "join" in service.log.read_text()


def test_units_use_the_entry_point():
    for name in SERVICES:
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(ROOT / "docker" / "systemd" / f"trainyard-{name}.service")
        assert unit["Service"]["ExecStart"] == f"/opt/trainyard/{ENTRY} {name}"
    assert unit["Service"]["KillMode"] == "process"
    assert unit["Service"]["Delegate"] == "yes"


def test_images_use_the_entry_point():
    text = (ROOT / "docker" / "Dockerfile").read_text()
    assert re.findall(r"^ENTRYPOINT (.*)$", text, re.M) == [f'["{ENTRY}"]', '["tini", "-s", "--", "docker/node-init"]']
    assert re.findall(r"^CMD (.*)$", text, re.M) == ['["web"]', '["node"]']
    assert f'{ENTRY} "$@"' in (ROOT / "docker" / "node-init").read_text()


def compose(name: str) -> dict:
    return yaml.safe_load((ROOT / "docker" / name).read_text())["services"]


def test_only_the_web_port_is_published():
    services = compose("compose.yml")
    assert {name for name, service in services.items() if service.get("ports")} == {"web"}
    assert not any("network_mode" in service for service in services.values())
    commands = {name: service["command"] for name, service in services.items() if name in SERVICES}
    assert commands == {"web": ["web"], "master": ["master"], "worker": ["worker"]}


def test_remote_nodes_reach_the_broker_by_tls_only():
    services = compose("compose.remote-nodes.yml")
    assert set(services) == {"broker"}
    command = services["broker"]["command"]
    tls_port = command[command.index("--tls-port") + 1]
    assert [port.rsplit(":", 1)[1] for port in services["broker"]["ports"]] == [tls_port]
    assert tls_port != command[command.index("--port") + 1]
    assert "--requirepass" in command
