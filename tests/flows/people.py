"""Makes the people of the stories, their tokens and two join codes in the portal's database, and prints them as JSON.

Usage: python -m tests.flows.people       with the portal's own environment
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta

import django


def main() -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    django.setup()
    from django.utils import timezone

    from nodes.services.joining import make_join_code
    from portal.accounts import services
    from portal.accounts.models import ApiToken

    told: dict[str, dict[str, str]] = {"tokens": {}, "codes": {}}
    for name in ("ada", "bob", "root"):
        user = services.create_user(None, username=name, password="correct horse battery", superuser=name == "root")
        told["tokens"][name] = services.create_token(user, name="flows")[1]
        if name == "ada":
            told["tokens"]["ada-read"] = services.create_token(user, name="reader", scope=ApiToken.Scope.READ)[1]
            expired, told["tokens"]["ada-expired"] = services.create_token(user, name="expired")
            ApiToken.objects.filter(pk=expired.pk).update(expiry=timezone.now() - timedelta(minutes=1))
    for name in ("one", "two"):
        told["codes"][name] = make_join_code(None, node_name=name)
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
