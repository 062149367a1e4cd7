"""Makes a team of any name with a user in it, in the portal's database, and prints its id.

Usage: python -m tests.browser.team NAME USER       with the portal's own environment
"""

from __future__ import annotations

import os
import sys

import django


def main() -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    django.setup()
    from portal.accounts import services
    from portal.accounts.models import User

    name, person = sys.argv[1:]
    team = services.create_team(None, name=name)
    services.set_membership(None, User.objects.get(username=person), team)
    print(team.pk)
    return 0


if __name__ == "__main__":
    sys.exit(main())
