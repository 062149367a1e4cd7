"""A one-time code with which one machine may join: `manage.py join-code`."""
# ruff: noqa: N999 - a command is called what its file is called

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from nodes.services.joining import CODE_MINUTES, make_join_code
from portal.errors import DomainError


class Command(BaseCommand):
    help = "Print a one-time code; on the new node: python -m nodes.agent join URL CODE"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", default="", help="what the node is called; its host name otherwise")
        parser.add_argument("--minutes", type=float, default=CODE_MINUTES, help="how long the code is good")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            code = make_join_code(None, node_name=options["name"], minutes=options["minutes"])
        except DomainError as error:
            raise CommandError(error.message) from error
        self.stdout.write(code)
