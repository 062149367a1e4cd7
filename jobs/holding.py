"""How many devices somebody holds now."""

from __future__ import annotations

from django.db.models import Sum

from jobs.models import Seat
from portal.accounts.models import User


def devices_held_by(user: User) -> float:
    """Whole devices; shares count as fractions."""
    live = Seat.objects.filter(released_at__isnull=True, placement__attempt__job__owner=user)
    return float(live.aggregate(total=Sum("thousandths"))["total"] or 0) / 1000
