"""The list of datasets with its drop zone, and the page of one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Prefetch, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from datasets.forms import OptionsForm
from datasets.models import Dataset, Upload, Version
from datasets.services.datasets import change_dataset, delete_dataset, find_dataset
from datasets.services.uploads import forget
from datasets.services.versions import inspect_again, set_options
from datasets.shown import shown
from datasets.states import UploadState, VersionState
from portal.accounts.http import SignedInRequest
from portal.errors import DomainError, NotFound

PAGE_ROWS = 50
_MOVING = (VersionState.WAITING, VersionState.INSPECTING)


@login_required
def dataset_list(request: SignedInRequest) -> HttpResponse:
    """Newest first, by keyset on the id."""
    found = Dataset.objects.visible_to(request.user).select_related("owner", "team")
    text = request.GET.get("q", "").replace("\x00", "").strip()
    if text:
        found = found.filter(Q(name__icontains=text) | Q(owner__username__iexact=text))
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 18:
        found = found.filter(pk__lt=int(before))
    newest = Version.objects.select_related("stored").defer("facts")
    rows = list(found.order_by("-pk").prefetch_related(Prefetch("versions", newest))[: PAGE_ROWS + 1])
    context = {
        "datasets": rows[:PAGE_ROWS],
        "older": rows[PAGE_ROWS - 1].pk if len(rows) > PAGE_ROWS else None,
        "is_filtered": bool(text),
        "uploads": _unfinished(request),
    }
    template = "datasets/_list.html" if request.headers.get("HX-Request") else "datasets/list.html"
    return render(request, template, context)


@login_required
def uploads(request: SignedInRequest) -> HttpResponse:
    """Uploads of mine that are not finished: the page offers to go on with the same file."""
    return render(request, "datasets/_uploads.html", {"uploads": _unfinished(request)})


def _unfinished(request: SignedInRequest) -> list[Upload]:
    states = (UploadState.OPEN, UploadState.FINISHING, UploadState.FAILED)
    mine = Upload.objects.filter(owner=request.user, purpose="dataset", state__in=states)
    return list(mine.select_related("dataset").order_by("-created_at")[:50])


@login_required
@require_POST
def forget_upload(request: SignedInRequest, pk: UUID) -> HttpResponse:
    upload = Upload.objects.filter(owner=request.user, pk=pk).first()
    if upload is None:
        raise NotFound("not_found", _("There is no such upload."))
    forget(upload)
    return redirect("dataset-list")


@login_required
def dataset_page(request: SignedInRequest, pk: int) -> HttpResponse:
    dataset = find_dataset(request.user, pk)
    context = _context(request, dataset, _chosen_version(dataset, request.GET.get("v", "")))
    template = "datasets/_version.html" if request.headers.get("HX-Request") else "datasets/dataset.html"
    return render(request, template, context)


def _context(
    request: SignedInRequest, dataset: Dataset, version: Version | None, form: OptionsForm | None = None
) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "versions": list(dataset.versions.select_related("stored", "created_by").defer("facts")),
        "version": version,
        "facts": shown(version) if version else {},
        "form": form or (OptionsForm(version=version) if version else None),
        "may_edit": Dataset.objects.editable_by(request.user).filter(pk=dataset.pk).exists(),
        "is_moving": version is not None and version.state in list(_MOVING),
    }


def _chosen_version(dataset: Dataset, number: str) -> Version | None:
    found = dataset.versions.select_related("stored", "created_by", "dataset")
    if number.isdecimal() and len(number) < 10:
        return _version(dataset, int(number))
    return found.order_by("-number").first()


def _version(dataset: Dataset, number: int) -> Version:
    found = dataset.versions.select_related("stored", "created_by", "dataset").filter(number=number).first()
    if found is None:
        raise NotFound("not_found", _("There is no such version of this dataset."))
    return found


@login_required
@require_POST
def options(request: SignedInRequest, pk: int, number: int) -> HttpResponse:
    dataset = find_dataset(request.user, pk)
    version = _version(dataset, number)
    form = OptionsForm(request.POST, version=version)
    if not form.is_valid():
        return render(request, "datasets/dataset.html", _context(request, dataset, version, form), status=400)
    changed = set_options(request.user, version, **form.changes())
    if changed.state == VersionState.WAITING:
        messages.info(request, _("The file is read again with your choices."))
    else:
        messages.success(request, _("Saved."))
    return redirect(f"{reverse('dataset', args=[pk])}?v={number}")


@login_required
@require_POST
def inspect(request: SignedInRequest, pk: int, number: int) -> HttpResponse:
    inspect_again(request.user, _version(find_dataset(request.user, pk), number))
    return redirect(f"{reverse('dataset', args=[pk])}?v={number}")


@login_required
@require_POST
def change(request: SignedInRequest, pk: int) -> HttpResponse:
    dataset = find_dataset(request.user, pk)
    try:
        change_dataset(
            request.user, dataset, name=request.POST.get("name"), description=request.POST.get("description")
        )
    except DomainError as error:
        messages.error(request, error.message)
    return redirect("dataset", pk=pk)


@login_required
@require_POST
def delete(request: SignedInRequest, pk: int) -> HttpResponse:
    dataset = find_dataset(request.user, pk)
    try:
        delete_dataset(request.user, dataset)
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("dataset", pk=pk)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": dataset.name})
    return redirect("dataset-list")
