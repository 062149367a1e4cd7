"""Everything on one machine: `manage.py up`. Ctrl-C stops all of it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.processes import run_kept
from portal.up import Lock, Options, Up, UpError


class Command(BaseCommand):
    help = "Runs broker, web, master, worker and two local nodes until Ctrl-C; starts again whatever dies."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address of the web process")
        parser.add_argument("--port", type=int, help="its port; otherwise last time's, 8000 or a free one")
        parser.add_argument("--nodes", type=int, default=2, choices=range(3), help="local nodes")
        parser.add_argument("--slots", type=int, default=0, help="CPU slots per node (0 shares the cores)")

    def handle(self, *args: Any, **given: Any) -> None:
        try:
            lock = Lock(Path(settings.VAR_DIR))
        except UpError as error:
            raise CommandError(str(error)) from None
        options = Options(given["host"], given["port"], given["nodes"], given["slots"], self._say, self._ready)
        code = run_kept(lambda: Up(options).run())
        del lock
        sys.exit(code)

    def _say(self, text: str) -> None:
        print(f"[up] {text}", flush=True)

    def _ready(self, url: str) -> None:
        self._say(f"Trainyard is at {url}   (Ctrl-C stops it)")
