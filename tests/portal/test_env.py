"""Settings are refused at start, by the name a person has to change, and never show a password."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from portal import env

ROOT = Path(__file__).parents[2]


def load_settings(var: Path, **given: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "TRAINYARD_VAR": str(var), **given}
    command = [sys.executable, "-c", "import portal.settings as s; print(s.SESSION_COOKIE_SECURE, s.ALLOWED_HOSTS)"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEBUG", "maybe"),
        ("SECRET_KEY", "short"),
        ("PUBLIC_URL", "trainyard.example.org"),
        ("PUBLIC_URL", "https://trainyard.example.org/portal"),
        ("PUBLIC_URL", "https://trainyard.example.org:port"),
        ("DATABASE_URL", "mysql://user:hunter2@host/db"),
        ("DATABASE_URL", "postgres://user:hunter2@host:port/db"),
        ("DATABASE_URL", "postgres://user:hunter2@host"),
        ("REDIS_URL", "127.0.0.1:6379"),
        ("REDIS_URL", "http://127.0.0.1:6379"),
        ("TIME_ZONE", "Mars/Olympus"),
        ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "loud"),
        ("TRUST_PROXY_HEADERS", "perhaps"),
        ("NODE_LOST_SECONDS", "soon"),
        ("LEASE_SECONDS", "1"),
        ("MASTER_TICK_SECONDS", "nan"),
        ("DATABASE_POOL", "0"),
    ],
)
def test_a_bad_value_is_refused_by_name(tmp_path, name, value):
    given = {"DATABASE_URL": "postgres://u@h/d"} if name == "DATABASE_POOL" else {}
    refused = load_settings(tmp_path, **{**given, name: value})
    assert refused.returncode != 0
    last = refused.stderr.strip().splitlines()[-1]
    assert "ImproperlyConfigured" in last
    assert name in last
    assert "hunter2" not in refused.stderr


def test_an_https_address_makes_cookies_secure_and_is_an_allowed_host(tmp_path):
    taken = load_settings(tmp_path, PUBLIC_URL="https://trainyard.example.org")
    assert taken.stdout.startswith("True ")
    assert "trainyard.example.org" in taken.stdout


def test_nothing_given_works(tmp_path):
    taken = load_settings(tmp_path)
    assert taken.stdout.startswith("False "), taken.stderr


@pytest.mark.parametrize(("where", "kind"), [("/data/x/db.sqlite3", "nfs4"), ("/db.sqlite3", "ext4")])
def test_the_file_system_of_a_path_is_the_one_mounted_nearest(tmp_path, where, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n")
    assert env.filesystem_of(Path(where), mounts) == kind


def test_sqlite_on_a_network_file_system_is_refused(monkeypatch):
    monkeypatch.setattr(env, "filesystem_of", lambda path: "nfs4")
    with pytest.raises(env.ImproperlyConfigured, match="TRAINYARD_VAR"):
        env.database("DATABASE_URL_NOT_SET", Path("/data/db.sqlite3"))
