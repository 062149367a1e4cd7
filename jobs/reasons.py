"""Why a job ended, in words a person reads; the codes themselves stand in `jobs.states.StopReason`."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from jobs.states import StopReason

REASON_WORDS: dict[str, Any] = {
    StopReason.COMPLETED: _("Completed"),
    StopReason.SCRIPT_ERROR: _("The training code failed"),
    StopReason.OUT_OF_MEMORY: _("Out of memory"),
    StopReason.DISK_QUOTA: _("Its folder on the node is full"),
    StopReason.TIME_LIMIT: _("Its time is up"),
    StopReason.JOIN_TIMEOUT: _("A node was not ready in time"),
    StopReason.INPUT_UNAVAILABLE: _("Its inputs could not be fetched"),
    StopReason.LAUNCH_FAILED: _("It could not be started"),
    StopReason.SUPERVISOR_GONE: _("It ended and nobody saw how"),
    StopReason.LEASE_EXPIRED: _("The node lost touch with the portal"),
    StopReason.PREEMPTED: _("It made room for another job"),
    StopReason.NODE_DRAINED: _("Its node was drained"),
    StopReason.NODE_LOST: _("Its node was lost"),
    StopReason.CANCELLED: _("Cancelled"),
    StopReason.IMPOSSIBLE: _("It can never run here"),
    StopReason.TOO_MANY_ATTEMPTS: _("Too many attempts failed"),
}
