"""Settings from the environment, read once, refused early and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import environ
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parent.parent
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "beegfs", "gpfs", "ocfs2", "ncpfs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs"}
)
_env = environ.Env()


def text(name: str, default: str | None = None) -> str:
    value = _env.str(name, default=default)
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set.")
    return str(value)


def flag(name: str, default: bool) -> bool:
    raw = text(name, "1" if default else "0").strip().lower()
    if raw in ("1", "true", "yes", "on"):
        return True
    if raw in ("0", "false", "no", "off", ""):
        return False
    raise ImproperlyConfigured(f"{name}={raw!r} is neither true nor false.")


def number(name: str, default: float, *, least: float, most: float) -> float:
    raw = text(name, str(default))
    try:
        value = float(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a number.") from None
    if not least <= value <= most:
        raise ImproperlyConfigured(f"{name}={raw} must be between {least} and {most}.")
    return value


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def folder(name: str, default: Path) -> Path:
    """An absolute folder path; made on first use, not here."""
    return Path(text(name, str(default))).expanduser().resolve()


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}={value!r} must be one of {', '.join(allowed)}.")
    return value


def time_zone(name: str, default: str) -> str:
    value = text(name, default)
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError):
        raise ImproperlyConfigured(f"{name}={value!r} is no time zone, such as Europe/Berlin.") from None
    return value


def origin(name: str) -> str:
    """'' or scheme://host[:port], without a path."""
    value = text(name, "").rstrip("/")
    if not value:
        return ""
    parts = _split(name, value)
    plain = not (parts.path or parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ImproperlyConfigured(f"{name}={value!r} must look like https://trainyard.example.org, without a path.")
    return value


def redis_url(name: str, running: Path) -> str:
    """The broker's address: from the environment, else the one `up` wrote to `running`, else the usual port."""
    given = text(name, "")
    if not given:
        try:
            return running.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return "redis://127.0.0.1:6379/0"
    parts = _split(name, given)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise ImproperlyConfigured(f"{name} must look like redis://[user:password@]host:port/0.")
    return given


def database(name: str, default_file: Path) -> dict[str, Any]:
    """Django's description of the database; SQLite is refused where its locks do not work."""
    url = text(name, "") or f"sqlite:///{default_file}"
    parts = _split(name, url)
    if parts.scheme not in ("sqlite", "postgres", "postgresql", "psql"):
        raise ImproperlyConfigured(f"{name} must begin with sqlite:/// or postgres://.")
    described: dict[str, Any] = environ.Env.db_url_config(url)
    if described["ENGINE"].endswith("sqlite3"):
        file = str(described["NAME"])
        kind = "" if file == ":memory:" else filesystem_of(Path(file))
        if kind in NETWORK_FILESYSTEMS:
            raise ImproperlyConfigured(
                f"The database file {file} lies on a network file system ({kind}), where SQLite's locks fail: set"
                f" TRAINYARD_VAR to a local folder, or {name} to a PostgreSQL server."
            )
    elif not described.get("NAME"):
        raise ImproperlyConfigured(f"{name} names no database: postgres://user:password@host/NAME.")
    return described


def filesystem_of(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The type of the file system that holds `path` (or would hold it), '' where the system does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    target = path.resolve()
    best, kind = Path(), ""
    for line in lines:
        _, where, this, *_ = line.split(" ")
        point = Path(where.replace("\\040", " "))
        if (target == point or point in target.parents) and len(point.parts) >= len(best.parts):
            best, kind = point, this
    return kind


def _split(name: str, url: str) -> SplitResult:
    """`urlsplit`, with a bad port or address refused by name and without showing what may hold a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} is not an address (look at the host and the port).") from None
    return parts
