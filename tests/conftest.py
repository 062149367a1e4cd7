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
