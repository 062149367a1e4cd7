"""From rows to launches: gathers what `jobs.launches` needs for one placement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db.models import Prefetch

from datasets.models import StoredObject, Version
from datasets.tickets import sign_get
from jobs.launches import Material, Order, Place, checkpoint_inputs, compose, compose_inspection
from jobs.models import Attempt, Checkpoint, Job, Placement, Seat
from jobs.secrets import unseal
from jobs.services.limit import remaining_seconds
from jobs.spec import JobSpec, ScriptCode
from nodes.messages import DeviceSeat, InputFile, Launch

TICKET_SECONDS = 6 * 3600.0  # a launch is composed anew until it is accepted; fetching begins at once then


def launch_of(placement: Placement) -> Launch:
    """The launch of one placement. Raises Invalid when a secret can no longer be read."""
    attempt = placement.attempt
    job = attempt.job
    if job.purpose == Job.Purpose.INSPECT:
        return _inspection_of(placement, job, attempt)
    spec = JobSpec.model_validate(job.spec)
    seats = Prefetch("seats", Seat.objects.select_related("device").order_by("device__index"))
    gang = attempt.placements.order_by("node_rank").prefetch_related(seats)
    places = [Place(member.token, tuple(_seats(member.seats.all()))) for member in gang]
    order = Order(
        job_id=job.pk,
        attempt=attempt.number,
        material=_material(job, attempt, spec),
        secrets={secret.name: unseal(secret.value) for secret in job.secrets.all()},
        limit_seconds=remaining_seconds(job),
        lease_seconds=settings.LEASE_SECONDS,
    )
    return compose(spec, places, order)[placement.node_rank]


def _inspection_of(placement: Placement, job: Job, attempt: Attempt) -> Launch:
    version = job.inspects
    material = Material(data=_stored("inputs/data", version.stored) if version else None)
    order = Order(job.pk, attempt.number, material, lease_seconds=settings.LEASE_SECONDS)
    return compose_inspection(
        Place(placement.token), order, file_name=job.spec["file_name"], options=job.spec["options"]
    )


def _seats(seats: Iterable[Seat]) -> Iterable[DeviceSeat]:
    for seat in seats:
        device = seat.device
        yield DeviceSeat(index=device.index, uuid=device.uuid, kind=device.kind, thousandths=seat.thousandths)


def _material(job: Job, attempt: Attempt, spec: JobSpec) -> Material:
    version = job.version
    return Material(
        data=_stored("inputs/data", version.stored) if version else None,
        dataset=_dataset(version, spec) if version else None,
        bundle=_bundle(spec),
        checkpoint=_checkpoint(attempt.checkpoint) if attempt.checkpoint else (),
    )


def _dataset(version: Version, spec: JobSpec) -> dict[str, Any]:
    """What the training code must know of the table to read it as its inspection did."""
    label = (spec.data.label if spec.data else None) or version.options.get("label")
    facts = {name: value for name, value in version.facts.items() if name != "preview"}
    return {
        "version_id": version.pk,
        "file_name": version.file_name,
        "kind": version.kind,
        "label": label,
        "options": version.options,
        "facts": facts,
    }


def _bundle(spec: JobSpec) -> InputFile | None:
    if not isinstance(spec.code, ScriptCode) or spec.code.bundle_sha256 is None:
        return None
    stored = StoredObject.objects.get(sha256=spec.code.bundle_sha256)
    return _stored("code", stored).model_copy(update={"unpack_zip": True})


def _checkpoint(checkpoint: Checkpoint) -> tuple[InputFile, ...]:
    objects = {o.sha256: o for o in StoredObject.objects.filter(sha256__in=[f["sha256"] for f in checkpoint.files])}
    files = [_stored(file["path"], objects[file["sha256"]]) for file in checkpoint.files]
    saved_at = checkpoint.created_at.timestamp()
    return checkpoint_inputs(files, step=checkpoint.step, saved_at=saved_at, metrics=checkpoint.metrics)


def _stored(path: str, stored: StoredObject) -> InputFile:
    url = sign_get(stored, seconds=TICKET_SECONDS)
    return InputFile(path=path, url=url, sha256=stored.sha256, size_bytes=stored.size_bytes)
