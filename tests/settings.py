"""The portal's settings for a test run, which never touches the clone's own var/ nor a broker that it did not start.

A settings module, because pytest-django reads settings before any conftest.
"""

import os
import tempfile

os.environ.setdefault("TRAINYARD_VAR", tempfile.mkdtemp(prefix="trainyard-tests-"))
os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")  # nothing listens there: tests that need a broker start one

from portal.settings import *  # noqa: E402, F403
