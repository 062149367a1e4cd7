"""What the frame of every page shows about the viewer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.holding import devices_held_by
from portal.accounts.models import Quota, User


@dataclass(frozen=True)
class QuotaSummary:
    """The thin bar at the rail's foot: devices in use beside the viewer's own ceiling."""

    used: float
    limit: int | None

    @property
    def text(self) -> str:
        used = f"{self.used:g}"
        if self.limit is None:
            return ngettext("%(used)s device in use", "%(used)s devices in use", math.ceil(self.used)) % {"used": used}
        return _("%(used)s of %(limit)s devices") % {"used": used, "limit": self.limit}

    @property
    def title(self) -> str:
        if self.limit is None:
            return _("No limit is set for you")
        return _("Your share of the cluster; see Usage")


def quota_summary(user: User) -> QuotaSummary:
    limit = Quota.objects.filter(user=user).values_list("max_devices", flat=True).first()
    return QuotaSummary(devices_held_by(user), limit)
