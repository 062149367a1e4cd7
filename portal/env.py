"""Settings from the environment, read once, refused early and by name."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parent.parent
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


def redis_url(name: str, running: Path) -> str:
    """The broker's address: from the environment, else the one `up` wrote to `running`, else the usual port."""
    given = text(name, "")
    if not given:
        try:
            return running.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return "redis://127.0.0.1:6379/0"
    parts = urlsplit(given)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise ImproperlyConfigured(f"{name} must look like redis://[user:password@]host:port/0.")
    return given
