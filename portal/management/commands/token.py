"""A person's API token: `manage.py token USER`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.accounts.models import ApiToken, User
from portal.accounts.services import create_token
from portal.errors import DomainError


class Command(BaseCommand):
    help = "Print a new API token of a user. It is shown this once: only its hash is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="the user's name")
        parser.add_argument("--read", action="store_true", help="the token may read only")
        parser.add_argument("--name", default="command line", help="what the list of tokens calls it")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user '{options['user']}'.")
        scope = ApiToken.Scope.READ if options["read"] else ApiToken.Scope.WRITE
        try:
            _row, text = create_token(user, name=options["name"], scope=scope)
        except DomainError as error:
            raise CommandError(error.message) from error
        self.stdout.write(text)
