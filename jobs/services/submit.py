"""A wish becomes a job in the queue: checked, counted under the accounts' locks, once per idempotency key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from jobs.launches import preview
from jobs.models import Checkpoint, Job, JobSecret
from jobs.scheduler.plan import plan
from jobs.scheduler.values import WaitingJob
from jobs.secrets import seal
from jobs.services.snapshot import load_snapshot, need_of
from jobs.services.transition import add_event
from jobs.services.waiting import names_for, sentence
from jobs.services.wish import problems_of_wish
from jobs.spec import JobSpec
from jobs.states import JobState
from nodes.messages import Launch
from portal.accounts.limits import limits_of, lock_accounts
from portal.accounts.models import Team, User
from portal.after_commit import hint
from portal.errors import Conflict, DomainError, InvalidFields, OverLimit

MAX_KEY = 200
_HYPOTHETICAL = 0  # no row has this id


@dataclass(frozen=True)
class WishReport:
    """`why` is one sentence: where it would start, or what it would wait for. `previews`: one launch per node."""

    problems: list[DomainError]
    starts_now: bool
    why: str
    previews: list[Launch]


@dataclass(frozen=True)
class Submitted:
    job: Job
    is_new: bool


def check_wish(user: User, spec: JobSpec, team: Team | None = None, *, secret_names: Sequence[str] = ()) -> WishReport:
    """Everything submit would check, and what would happen next; writes nothing."""
    problems = problems_of_wish(user, spec, team)
    previews = preview(spec, secret_names=secret_names)
    if problems:
        return WishReport(problems, starts_now=False, why=problems[0].message, previews=previews)
    starts_now, why = _forecast(user, spec, team)
    return WishReport([], starts_now, why, previews)


def submit_job(
    user: User,
    spec: JobSpec,
    *,
    team: Team | None = None,
    secrets: Mapping[str, str] | None = None,
    idempotency_key: str = "",
    origin: Job | None = None,
    resume_from: Checkpoint | None = None,
) -> Job:
    """The job, QUEUED; for a key used before, the job it made then. Raises what `submit_once` raises."""
    return submit_once(
        user,
        spec,
        team=team,
        secrets=secrets,
        idempotency_key=idempotency_key,
        origin=origin,
        resume_from=resume_from,
    ).job


def submit_once(
    user: User,
    spec: JobSpec,
    *,
    team: Team | None = None,
    secrets: Mapping[str, str] | None = None,
    idempotency_key: str = "",
    origin: Job | None = None,
    resume_from: Checkpoint | None = None,
) -> Submitted:
    """The job and whether this very call made it; of calls at the same time with one key, one did.

    Raises InvalidFields (every wrong field at once), OverLimit (the queue of person or team is full), Conflict (the key
    came with another body before).
    """
    secrets = dict(secrets or {})
    digest = _digest(spec, team, secrets, resume_from)
    earlier = _made_before(user, idempotency_key, digest)
    if earlier is not None:
        return Submitted(earlier, is_new=False)
    problems = problems_of_wish(user, spec, team, resume_from=resume_from, secret_names=list(secrets))
    if problems:
        raise InvalidFields(problems)
    with transaction.atomic():
        lock_accounts([team.pk] if team else [], [user.pk])
        earlier = _made_before(user, idempotency_key, digest)
        if earlier is not None:
            return Submitted(earlier, is_new=False)
        _check_queue(user, team)
        job = Job.objects.create(
            owner=user,
            team=team,
            name=spec.name,
            spec=spec.model_dump(mode="json"),
            priority=spec.priority,
            queued_at=timezone.now(),
            version_id=spec.data.version_id if spec.data else None,
            origin=origin,
            resume_from=resume_from,
            idempotency_key=idempotency_key[:MAX_KEY],
            spec_hash=digest,
            device_count=spec.worker.device_count,
            node_count=spec.worker.nodes,
        )
        JobSecret.objects.bulk_create([JobSecret(job=job, name=name, value=seal(v)) for name, v in secrets.items()])
        add_event(job, "submitted", _("Submitted by %(name)s.") % {"name": user.get_username()}, actor=user)
        hint("jobs", job.rev)
        hint("master")
    return Submitted(job, is_new=True)


def _forecast(user: User, spec: JobSpec, team: Team | None) -> tuple[bool, str]:
    need = need_of(spec.model_dump(mode="json"))
    now = timezone.now().timestamp()
    wish = WaitingJob(_HYPOTHETICAL, user.pk, team.pk if team else None, need, now, spec.priority)
    snapshot = load_snapshot(wish)
    decided = plan(snapshot)
    start = decided.start_of(_HYPOTHETICAL)
    if start is not None:
        names = {node.id: node.name for node in snapshot.nodes}
        return True, _("Could start now, on %(nodes)s.") % {"nodes": ", ".join(names[s.node] for s in start.seats)}
    explanation = decided.explanation_of(_HYPOTHETICAL)
    return False, sentence(explanation, names_for([explanation])) if explanation else ""


def _made_before(user: User, key: str, digest: str) -> Job | None:
    if not key:
        return None
    job: Job | None = Job.objects.filter(owner=user, idempotency_key=key[:MAX_KEY]).first()
    if job is not None and job.spec_hash != digest:
        raise Conflict(
            "idempotency_key",
            _("This idempotency key came with another job before (job %(id)d). Use a new key.") % {"id": job.pk},
            field="idempotency_key",
        )
    return job


def _check_queue(user: User, team: Team | None) -> None:
    """Under the locks of both accounts."""
    queued = Job.objects.of_people().filter(state=JobState.QUEUED)
    person_limits, team_limits = limits_of(user.pk, team.pk if team else None)
    accounts = [(person_limits.queued_jobs, queued.filter(owner=user), _("You have"))]
    if team is not None:
        accounts.append((team_limits.queued_jobs, queued.filter(team=team), _("The team has")))
    for limit, jobs, who in accounts:
        if limit is None:
            continue
        used = jobs.count()
        if used >= limit:
            text = _(
                "%(who)s %(used)d jobs in the queue and the quota is %(limit)d. Wait until some start, or cancel some."
            )
            told = {"who": who, "used": used, "limit": limit}
            raise OverLimit("quota", text % told, limit=limit, used=used, asked=1)


def _digest(spec: JobSpec, team: Team | None, secrets: Mapping[str, str], resume_from: Checkpoint | None) -> str:
    """Of everything the person sent. Keyed, so that a guessed secret cannot be tried against it."""
    body = {
        "spec": spec.model_dump(mode="json"),
        "team": team.pk if team else None,
        "secrets": dict(sorted(secrets.items())),
        "resume_from": resume_from.pk if resume_from else None,
    }
    text = json.dumps(body, sort_keys=True)
    return salted_hmac("trainyard.submit", text, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()
