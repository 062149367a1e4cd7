"""The portal's settings for a test run, which never touches the clone's own var/ nor a broker that it did not start.

A settings module, because pytest-django reads settings before any conftest.
"""

import os
import tempfile

os.environ.setdefault("TRAINYARD_VAR", tempfile.mkdtemp(prefix="trainyard-tests-"))
os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")  # nothing listens there: tests that need a broker start one

from portal.settings import *  # noqa: F403

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):  # noqa: F405
    # A file, not memory: threads and processes of a test then meet as they do in use (WAL, busy timeout, IMMEDIATE).
    VAR_DIR.mkdir(parents=True, exist_ok=True)  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "tests.sqlite3")}  # noqa: F405

STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # noqa: F405 - WhiteNoise warns of a missing one
WHITENOISE_USE_FINDERS = False  # every test client would list all static files again
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a strong one costs 0.3 s a user
