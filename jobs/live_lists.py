"""The readers of the live list of jobs and of the cluster page: all nodes, who uses each device, and the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from jobs.live import digest_of, reader_for
from jobs.live_messages import JobsMessage, NodesMessage, QueueMessage
from jobs.models import Job, Seat
from jobs.services.live_state import job_row, queue_head, visible_ids
from nodes.consumers import SIGNED_OUT
from nodes.live import Answer, Reader
from nodes.live_state import node_states
from portal.accounts.models import User
from portal.accounts.viewers import Credentials, users_of
from portal.db import read_snapshot

CLUSTER_PACE_SECONDS = 0.5
NEWEST_ROWS = 50  # watched without being asked for


def jobs_reader() -> Reader:
    return reader_for("jobs", lambda: Reader(["jobs"], look_at_jobs, pace=CLUSTER_PACE_SECONDS))


def cluster_reader() -> Reader:
    return reader_for("nodes", lambda: Reader(["nodes", "jobs"], look_at_cluster, pace=CLUSTER_PACE_SECONDS))


Digests = tuple[tuple[Any, str], ...]  # of each row that a socket has, by its id


@dataclass(frozen=True)
class JobsAsk:
    who: Credentials
    ids: tuple[int, ...] | None = None  # None: the newest rows
    has: Digests = ()
    newest: int = -1


def look_at_jobs(asks: list[JobsAsk]) -> list[Answer]:
    with read_snapshot():
        users = users_of(ask.who for ask in asks)
        return [_jobs_answer(ask, users.get(ask.who)) for ask in asks]


def _jobs_answer(ask: JobsAsk, user: User | None) -> Answer:
    if user is None:
        return Answer(close=SIGNED_OUT, ask=ask)
    visible = Job.objects.visible_to(user).of_people().select_related("owner", "team")
    rows = visible.filter(pk__in=ask.ids) if ask.ids is not None else visible.order_by("-id")[:NEWEST_ROWS]
    changed, removed, has = difference(dict(ask.has), {job.pk: job_row(job) for job in rows})
    newest = visible.order_by("-id").values_list("pk", flat=True).first() or 0
    if not changed and not removed and newest == ask.newest:
        return Answer(ask=ask)
    text = JobsMessage(changed=changed, removed=removed, newest=newest).model_dump_json()
    return Answer([text], replace(ask, has=has, newest=newest))


def difference(has: dict[Any, str], rows: dict[Any, dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Any], Digests]:
    """Rows that differ from what a socket has, ids that it has and that are gone, and what it has afterwards."""
    digests = {key: digest_of(row) for key, row in rows.items()}
    changed = [row for key, row in rows.items() if has.get(key) != digests[key]]
    return changed, [key for key in has if key not in rows], tuple(digests.items())


# --- the cluster ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterAsk:
    who: Credentials
    has: Digests = ()
    queue: str = ""


def look_at_cluster(asks: list[ClusterAsk]) -> list[Answer]:
    with read_snapshot():
        users = users_of(ask.who for ask in asks)
        nodes, uses = node_states(), device_uses()
        total, waiting = queue_head()
        shown = {user: _Shown(user, nodes, uses, waiting) for user in set(users.values())}
        return [_cluster_answer(ask, shown.get(users[ask.who]) if ask.who in users else None, total) for ask in asks]


def _cluster_answer(ask: ClusterAsk, shown: _Shown | None, total: int) -> Answer:
    if shown is None:
        return Answer(close=SIGNED_OUT, ask=ask)
    messages: list[str | bytes] = []
    changed, removed, has = difference(dict(ask.has), shown.nodes)
    if changed or removed:
        messages.append(NodesMessage(changed=changed, removed=removed).model_dump_json())
    digest = digest_of([total, shown.queue])
    if digest != ask.queue:
        messages.append(QueueMessage(total=total, jobs=shown.queue).model_dump_json())
    return Answer(messages, replace(ask, has=has, queue=digest))


def device_uses() -> dict[int, list[dict[str, Any]]]:
    """By device: who holds how many thousandths of it, and for which job."""
    uses: dict[int, list[dict[str, Any]]] = {}
    seats = Seat.objects.filter(released_at__isnull=True).order_by("id")
    job = "placement__attempt__job"
    fields = ("device_id", "thousandths", f"{job}_id", f"{job}__name", f"{job}__owner__username")
    for device, thousandths, job_id, name, owner in seats.values_list(*fields):
        uses.setdefault(device, []).append(
            {"thousandths": thousandths, "job": job_id, "job_name": name, "owner": owner}
        )
    return uses


class _Shown:
    """What one person sees: of jobs that are not theirs the owner and the size, neither name nor id."""

    def __init__(
        self, user: User, nodes: list[dict[str, Any]], uses: dict[int, list[dict[str, Any]]], waiting: Iterable[Job]
    ) -> None:
        waiting = list(waiting)
        known = visible_ids({use["job"] for own in uses.values() for use in own} | {job.pk for job in waiting}, user)
        self._user = user.get_username()
        self.nodes = {
            node["id"]: {**node, "devices": [self._device(device, uses, known) for device in node["devices"]]}
            for node in nodes
        }
        self.queue = [self._row(job, job.pk in known) for job in waiting]

    def _device(self, device: dict[str, Any], uses: dict[int, list[dict[str, Any]]], known: set[int]) -> dict[str, Any]:
        own = [
            {
                **use,
                "is_mine": use["owner"] == self._user,
                **({} if use["job"] in known else {"job": None, "job_name": ""}),
            }
            for use in uses.get(device["id"], [])
        ]
        return {**device, "uses": own}

    def _row(self, job: Job, is_known: bool) -> dict[str, Any]:
        row = job_row(job)
        row["is_mine"] = row["owner"] == self._user
        return row if is_known else {**row, "id": None, "name": "", "waiting_text": "", "team": None}
