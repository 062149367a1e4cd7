"""Pages that put several apps together: home, the cluster with its queue, a node, usage."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import render

from datasets.models import Dataset
from jobs.models import Job
from nodes.models import Node
from portal import cluster
from portal.accounts.http import SignedInRequest
from portal.accounts.models import Quota, Team
from portal.errors import NotFound
from portal.quota_use import LABELS, rows_of, use_of, uses_of_teams

HOME_ROWS = 6
QUEUE_ROWS = 50


@login_required
def home(request: SignedInRequest) -> HttpResponse:
    """What is mine and moving; for somebody new, the way to the first curve."""
    mine = Job.objects.of_people().filter(owner=request.user)
    context = {
        "open_jobs": mine.open().for_list()[:HOME_ROWS],
        "ended_jobs": mine.filter(ended_at__isnull=False).for_list().order_by("-ended_at")[:HOME_ROWS],
        "datasets": Dataset.objects.filter(owner=request.user).prefetch_related("versions__stored")[:HOME_ROWS],
        "node_states": dict(Node.objects.order_by().values_list("state").annotate(Count("pk"))),
    }
    return render(request, _part(request, "portal/home.html", "portal/_home.html"), context)


@login_required
def cluster_page(request: SignedInRequest) -> HttpResponse:
    context = {**cluster.overview(request.user), **cluster.queue(request.user, QUEUE_ROWS)}
    return render(request, _part(request, "portal/cluster.html", "portal/_cluster.html"), context)


@login_required
def node_page(request: SignedInRequest, pk: UUID) -> HttpResponse:
    node = Node.objects.filter(pk=pk).prefetch_related("devices").first()
    if node is None:
        raise NotFound("not_found", "There is no such node.")
    context = {
        "card": cluster.cards([node], request.user)[0],
        "events": node.events.select_related("actor")[:50],
        "placements": cluster.placements_on(node, request.user),
    }
    return render(request, _part(request, "nodes/node.html", "nodes/_node.html"), context)


@login_required
def usage(request: SignedInRequest) -> HttpResponse:
    teams = list(Team.objects.filter(memberships__user=request.user))
    team_uses = uses_of_teams(teams)
    quotas = {quota.team_id: quota for quota in Quota.objects.filter(team__in=teams)}
    own = Quota.objects.filter(user=request.user).first()
    subjects = [{"name": request.user.get_username(), "is_me": True, **_limits(own, use_of(request.user))}]
    subjects += [
        {"name": team.name, "is_me": False, **_limits(quotas.get(team.pk), team_uses[team.pk])} for team in teams
    ]
    return render(request, "portal/usage.html", {"subjects": subjects})


def _limits(quota: Quota | None, use: Any) -> dict[str, Any]:
    rows = [
        {"label": LABELS[row.name], "used": row.used, "limit": row.limit, "is_bytes": row.name == "storage_bytes"}
        for row in rows_of(quota, use)
    ]
    return {"rows": rows, "longest": quota.max_job_seconds if quota else None}


def _part(request: SignedInRequest, whole: str, part: str) -> str:
    """A page that refreshes itself asks for its moving part alone."""
    return part if request.headers.get("HX-Request") else whole
