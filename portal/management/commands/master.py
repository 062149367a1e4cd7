"""The master server: `manage.py master`. SIGTERM and Ctrl-C end it cleanly."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand

from portal.master import Master


class Command(BaseCommand):
    help = "Schedule jobs, declare silent nodes lost, keep the time. One leads; others stand by."

    def handle(self, *args: Any, **options: Any) -> None:
        master = Master()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: master.quit())
        self.stdout.write(f"The master runs as {master.candidate.name}.")
        master.run()
        self.stdout.write("The master has ended.")
