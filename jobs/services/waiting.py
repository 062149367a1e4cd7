"""One sentence per waiting job: why it waits and what would help. Written only where it has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.models import Job
from jobs.scheduler.values import Account, Closed, Explanation, Why
from jobs.services.leader import hold_leadership
from jobs.states import JobState
from portal.accounts.models import Team, User
from portal.after_commit import hint

BATCH = 50


@dataclass(frozen=True)
class Names:
    """What accounts are called."""

    by_account: Mapping[Account, str]

    def of(self, account: Account | None) -> str:
        return self.by_account.get(account, "?") if account else "?"


def names_for(explanations: Sequence[Explanation]) -> Names:
    accounts = {item.account for item in explanations if item.account is not None}
    users = User.objects.filter(pk__in=[pk for kind, pk in accounts if kind == "person"])
    teams = Team.objects.filter(pk__in=[pk for kind, pk in accounts if kind == "team"])
    found: dict[Account, str] = {("person", user.pk): user.get_username() for user in users}
    return Names(found | {("team", team.pk): team.name for team in teams})


def write_explanations(explanations: Sequence[Explanation], epoch: int) -> int:
    """Bring `waiting_text` and `position` of waiting jobs up to date; returns how many rows changed."""
    names = names_for(explanations)
    wanted = {item.job: (sentence(item, names), item.position) for item in explanations}
    rows = Job.objects.filter(pk__in=wanted, state=JobState.QUEUED).values_list("pk", "waiting_text", "position")
    changed = [pk for pk, text, position in rows if (text, position) != wanted[pk]]
    for start in range(0, len(changed), BATCH):
        with transaction.atomic():
            hold_leadership(epoch)
            for pk in changed[start : start + BATCH]:
                text, position = wanted[pk]
                Job.objects.filter(pk=pk, state=JobState.QUEUED).update(waiting_text=text, position=position)
                hint(f"job.{pk}")
            hint("jobs")
    return len(changed)


def sentence(item: Explanation, names: Names) -> str:
    return _SENTENCES[item.why](item, names)


def _devices(count: int, kind: str = "") -> str:
    if kind:
        return ngettext(
            "%(count)d device of the kind '%(kind)s'", "%(count)d devices of the kind '%(kind)s'", count
        ) % {
            "count": count,
            "kind": kind,
        }
    return ngettext("%(count)d device", "%(count)d devices", count) % {"count": count}


def _nodes(count: int) -> str:
    return ngettext("%(count)d node", "%(count)d nodes", count) % {"count": count}


def _wish(item: Explanation) -> str:
    if item.devices_wanted == 0:
        return _nodes(item.nodes_wanted)
    told = {"nodes": _nodes(item.nodes_wanted), "devices": _devices(item.devices_wanted, item.kind)}
    return (
        _("%(devices)s on one node") % told if item.nodes_wanted == 1 else _("%(devices)s on each of %(nodes)s") % told
    )


def _whose(item: Explanation, names: Names) -> str:
    name = names.of(item.account)
    is_team = item.account is not None and item.account[0] == "team"
    return _("the team %(name)s") % {"name": name} if is_team else name


def _quota_devices(item: Explanation, names: Names) -> str:
    return _(
        "Over quota: %(who)s may use %(limit)d devices at once and uses %(used)d; this job needs %(wanted)d."
        " It starts when enough of those jobs have ended, or when an admin raises the quota."
    ) % {
        "who": _whose(item, names),
        "limit": item.limit,
        "used": item.used,
        "wanted": item.nodes_wanted * item.devices_wanted,
    }


def _quota_jobs(item: Explanation, names: Names) -> str:
    return _(
        "Over quota: %(who)s may run %(limit)d jobs at once and runs %(used)d."
        " It starts when one of them has ended, or when an admin raises the quota."
    ) % {"who": _whose(item, names), "limit": item.limit, "used": item.used}


def _full(item: Explanation, _names: Names) -> str:
    return _(
        "The cluster is full: it needs %(wish)s; %(free)d of %(total)d suitable devices are free."
        " It starts when running jobs have ended; a job that asks for less may start earlier."
    ) % {"wish": _wish(item), "free": item.free, "total": item.total}


def _fragmented(item: Explanation, _names: Names) -> str:
    return _(
        "The free devices are scattered: %(free)d are free, but it needs %(wish)s and the most on one node is"
        " %(largest)d."
        " Spread over more nodes with fewer devices each it might start now."
    ) % {"free": item.free, "wish": _wish(item), "largest": item.largest}


def _closed(item: Explanation, _names: Names) -> str:
    shown = ", ".join(item.names[:5])
    told = {"wish": _wish(item), "names": shown}
    if item.closed in (Closed.CORDONED, Closed.DRAINING):
        return (
            _("It needs %(wish)s and would fit on %(names)s, which takes no new jobs: an admin can reopen it.") % told
        )
    if item.closed is Closed.CONFLICT:
        return (
            _("It needs %(wish)s and would fit on %(names)s, whose id two machines use: an admin must end one.") % told
        )
    return _("It needs %(wish)s and would fit on %(names)s, which does not answer: it starts when it is back.") % told


def _no_kind(item: Explanation, _names: Names) -> str:
    if not item.names:
        return _("No node has a device of the kind '%(kind)s': no node reports any device at the moment.") % {
            "kind": item.kind
        }
    return _(
        "No node has a device of the kind '%(kind)s'. There are: %(kinds)s. Submit it again with one of these."
    ) % {
        "kind": item.kind,
        "kinds": ", ".join(item.names),
    }


def _never(item: Explanation, _names: Names) -> str:
    return _(
        "The cluster has become too small: it needs %(wish)s, and even without other jobs that does not exist"
        " (the largest node has %(largest)d). It waits for more nodes; or cancel it and ask for less."
    ) % {"wish": _wish(item), "largest": item.largest}


def _cpu_or_memory(_item: Explanation, _names: Names) -> str:
    return _(
        "Devices are free, but not with enough CPUs and memory beside them."
        " It starts when running jobs on these nodes have ended, or sooner if it asks for fewer CPUs or less memory."
    )


def _held(item: Explanation, _names: Names) -> str:
    return _(
        "What it would need is held for job %(job)d, which waits longest and needs it whole. It starts after that."
    ) % {"job": item.held_for}


def _no_nodes(_item: Explanation, _names: Names) -> str:
    return _("No node has joined yet: an admin makes a join code and starts the agent on a machine.")


_SENTENCES: dict[Why, Callable[[Explanation, Names], str]] = {
    Why.QUOTA_DEVICES: _quota_devices,
    Why.QUOTA_JOBS: _quota_jobs,
    Why.FULL: _full,
    Why.FRAGMENTED: _fragmented,
    Why.NODES_CLOSED: _closed,
    Why.NO_SUCH_KIND: _no_kind,
    Why.NEVER_FITS: _never,
    Why.CPU_OR_MEMORY: _cpu_or_memory,
    Why.HELD: _held,
    Why.NO_NODES: _no_nodes,
}
