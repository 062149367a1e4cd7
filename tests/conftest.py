"""Shared fixtures. Tests run on SQLite unless DATABASE_URL names a PostgreSQL server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture
def make_user(db):
    """make_user('ada', staff=False, superuser=False) with a usable password 'correct horse battery'."""
    from portal.accounts.models import User

    def make(name: str = "ada", *, staff: bool = False, superuser: bool = False) -> User:
        user = User(username=name, is_staff=staff or superuser, is_superuser=superuser)
        user.set_password("correct horse battery")
        user.save()
        return user

    return make


def pytest_addoption(parser):
    parser.addoption("--database-only", action="store_true", help="only tests that use the database")
    parser.addoption("--screenshots", action="store_true", help="browser tests write frontend/screenshots/ anew")


def pytest_collection_modifyitems(config, items):
    """On the second database the tests that use none would only prove the same again."""
    if not config.getoption("--database-only"):
        return
    fixtures = {"db", "transactional_db", "live_server"}
    kept = [item for item in items if item.get_closest_marker("django_db") or fixtures & set(item.fixturenames)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def pytest_sessionfinish(session, exitstatus):
    """In CI a skip is a failure: whatever a test needs must have been installed by then."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        os.environ.get("CI")
        and reporter
        and reporter.stats.get("skipped")
        and not hasattr(session.config, "workerinput")
    ):
        for report in reporter.stats["skipped"]:
            print(f"\nSKIPPED IN CI: {report.nodeid}: {report.longrepr}")
        session.exitstatus = exitstatus or 1
