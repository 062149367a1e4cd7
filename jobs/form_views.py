"""The page of a new job: filled with what this cluster has, checked as it is typed, submitted once."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET, require_POST
from pydantic import ValidationError

from datasets.models import Dataset, Version
from datasets.shown import column_names, label_of
from datasets.states import VersionState
from jobs.commands import commands_for
from jobs.forms import JobForm, field_of, initial_of
from jobs.holding import devices_held_by
from jobs.models import Checkpoint, CodeBundle, Job
from jobs.problems import sentence_of
from jobs.services.bundles import keep_bundle
from jobs.services.submit import check_wish, submit_job
from jobs.spec import JobSpec, Problem, problems_of
from jobs.spec_text import write_text
from nodes.models import Device, Node
from nodes.states import Admission, NodeState
from portal.accounts.http import SignedInRequest
from portal.accounts.models import Quota, Team, User
from portal.errors import DomainError, InvalidFields

MAX_COLUMNS = 2000  # named in the form
OFFERED = 200  # datasets in the select; the others are found by 'Train on this' on their page


@login_required
def new_job(request: SignedInRequest) -> HttpResponse:
    if request.method == "POST":
        return _submit(request)
    form = JobForm(initial=_initial(request))
    return _page(request, form, {})


@login_required
@require_POST
def check(request: SignedInRequest) -> HttpResponse:
    """Errors by field and the right column, while somebody types. Writes nothing."""
    answer = _read(request)
    html = render_to_string("jobs/_plan.html", _plan(request, answer), request=request)
    return JsonResponse({"errors": answer.errors, "plan": html, "is_valid": not answer.errors})


@login_required
@require_GET
def columns(request: SignedInRequest, pk: int) -> HttpResponse:
    """Names of a dataset version's columns and the label chosen there, for the form."""
    version = _versions(request.user).filter(pk=pk).first()
    names = column_names(version)[:MAX_COLUMNS] if version else []
    return JsonResponse({"columns": names, "label": label_of(version) if version else ""})


@login_required
@require_POST
def add_bundle(request: SignedInRequest) -> HttpResponse:
    """A finished upload becomes a zip of code that jobs may name."""
    bundle = keep_bundle(request.user, request.POST.get("upload", ""))
    return JsonResponse({"sha256": bundle.stored.sha256, "name": bundle.file_name})


# --- reading the form ----------------------------------------------------------------------------------------------


@dataclass
class _Answer:
    form: JobForm
    spec: JobSpec | None = None
    team: Team | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def add(self, problems: list[Problem]) -> None:
        for problem in problems:
            name = field_of(problem.field)
            known = self.errors.get(name, "")
            text = sentence_of(problem)
            if text not in known:
                self.errors[name] = f"{known} {text}".strip()

    def listed(self) -> list[dict[str, Any]]:
        """The errors with their fields' labels, for the right column."""
        fields = self.form.fields
        return [
            {"label": fields[name].label if name in fields else "", "text": text} for name, text in self.errors.items()
        ]

    def refuse(self, errors: Iterable[DomainError]) -> None:
        self.add([Problem(field=error.field or "", message=error.message) for error in errors])


def _read(request: SignedInRequest) -> _Answer:
    form = JobForm(request.POST)
    answer = _Answer(form)
    if not form.is_valid():
        answer.errors = {name: " ".join(map(str, texts)) for name, texts in form.errors.items()}
        return answer
    wish, problems = form.wish()
    answer.add(problems)
    answer.secrets, problems = form.secret_values()
    answer.add(problems)
    answer.team = _team(request.user, form.cleaned_data["team"])
    try:
        answer.spec = JobSpec.model_validate(wish)
    except ValidationError as error:
        answer.add(problems_of(error))
    return answer


def _team(user: User, pk: str) -> Team | None:
    return Team.objects.filter(memberships__user=user, pk=pk).first() if pk.isdecimal() and len(pk) < 10 else None


def _plan(request: SignedInRequest, answer: _Answer) -> dict[str, Any]:
    if answer.spec is None:
        return {"spec": None, "errors": answer.errors, "listed": answer.listed()}
    report = check_wish(request.user, answer.spec, answer.team, secret_names=list(answer.secrets))
    answer.refuse(report.problems)
    quota = Quota.objects.filter(user=request.user).first()
    return {
        "spec": answer.spec,
        "errors": answer.errors,
        "listed": answer.listed(),
        "report": report,
        "yaml": write_text(answer.spec),
        "commands": commands_for(report.previews),
        "wanted": answer.spec.worker.device_count,
        "held": f"{devices_held_by(request.user):g}",
        "limit": quota.max_devices if quota else None,
    }


def _submit(request: SignedInRequest) -> HttpResponse:
    answer = _read(request)
    if answer.spec is not None and not answer.errors:
        data = answer.form.cleaned_data
        try:
            job = submit_job(
                request.user,
                answer.spec,
                team=answer.team,
                secrets=answer.secrets,
                idempotency_key=data["idempotency_key"],
                origin=_origin(request.user, data["origin"]),
                resume_from=_checkpoint(request.user, data["resume_from"]),
            )
        except InvalidFields as error:
            answer.refuse(error.errors)
        except DomainError as error:
            answer.refuse([error])
        else:
            return redirect("job", pk=job.pk)
    return _page(request, answer.form, answer.errors, plan=_plan(request, answer), status=400)


def _origin(user: User, pk: str) -> Job | None:
    return Job.objects.of_people().visible_to(user).filter(pk=_id(pk)).first()


def _checkpoint(user: User, pk: str) -> Checkpoint | None:
    mine = Checkpoint.objects.filter(job__in=Job.objects.visible_to(user), is_removed=False)
    return mine.select_related("job").filter(pk=_id(pk)).first()


# --- the page -------------------------------------------------------------------------------------------------------


def _initial(request: SignedInRequest) -> dict[str, Any]:
    values = _of_this_cluster()
    old = _origin(request.user, request.GET.get("from", ""))
    checkpoint = _checkpoint(request.user, request.GET.get("checkpoint", ""))
    if checkpoint is not None:
        old = checkpoint.job
        values["resume_from"] = checkpoint.pk
    if old is not None:
        values |= {**initial_of(old.spec), "origin": old.pk, "team": old.team_id or ""}
    version = _versions(request.user).filter(pk=_id(request.GET.get("version", ""))).first()
    if version is None and old is None:
        mine = _versions(request.user).filter(dataset__owner=request.user).order_by("-pk")
        version = next((one for one in mine[:20] if label_of(one)), None) or mine.first()
    if version is not None:
        values |= {"version": version.pk, "label": label_of(version)}
        values.setdefault("name", version.dataset.name[:200])
    return {**values, "idempotency_key": uuid.uuid4().hex}


def _id(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 18 else 0


def _of_this_cluster() -> dict[str, Any]:
    """Two nodes where there are two, one device on each: the smallest job that is distributed."""
    usable = Node.objects.filter(state=NodeState.ONLINE, admission=Admission.OPEN)
    working = Q(devices__is_present=True, devices__is_healthy=True)
    counts = [count for count in usable.annotate(n=Count("devices", working)).values_list("n", flat=True) if count]
    nodes = min(2, len(counts)) or 1
    return {"nodes": nodes, "devices": 1, "strategy": "ddp" if nodes > 1 else "single"}


def _versions(user: User) -> Any:
    visible = Version.objects.select_related("dataset").filter(state=VersionState.READY)
    return visible.filter(dataset__in=_datasets(user))


def _datasets(user: User) -> Any:
    return Dataset.objects.visible_to(user)


def _page(
    request: SignedInRequest,
    form: JobForm,
    errors: dict[str, str],
    *,
    plan: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    for name, text in errors.items():
        if name in form.fields and not form.is_bound:
            continue
        form.add_error(name if name in form.fields else None, text)
    found = list(_versions(request.user).order_by("-pk").defer("facts")[:OFFERED])
    form.offer("version", [(str(v.pk), f"{v.dataset.name} · v{v.number}") for v in found])
    form.offer("team", [(str(t.pk), t.name) for t in Team.objects.filter(memberships__user=request.user)])
    kinds = Device.objects.filter(is_present=True).order_by("kind").values_list("kind", flat=True).distinct()
    form.offer("device_kind", [(kind, kind) for kind in kinds])
    bundles = CodeBundle.objects.filter(owner=request.user).select_related("stored").order_by("-pk")[:50]
    form.offer("bundle", [(b.stored.sha256, f"{b.file_name} ({b.stored.sha256[:8]})") for b in bundles])
    chosen = _versions(request.user).filter(pk=_id(str(form["version"].value() or ""))).first()
    context = {
        "form": form,
        "whole_errors": form.non_field_errors() if form.is_bound else [],
        "column_names": column_names(chosen)[:MAX_COLUMNS] if chosen else [],
        "checkpoint": _checkpoint(request.user, str(form["resume_from"].value() or "")),
        "origin": _origin(request.user, str(form["origin"].value() or "")),
        "has_datasets": bool(found),
        **(plan or {"spec": None, "errors": {}}),
    }
    return render(request, "jobs/new.html", context, status=status)
