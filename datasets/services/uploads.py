"""Rows of bytes on their way: who, how much, how far. The bytes themselves are written by `datasets.uploads`."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import socket
import unicodedata
import uuid
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from datasets.models import StoredObject, Upload
from datasets.services.datasets import check_team, checked_name, find_dataset, require_editor
from datasets.services.objects import refusal
from datasets.services.storage_use import check_room, in_words
from datasets.states import UploadState
from datasets.storage.contract import StorageError
from datasets.storage.staging import Staging
from portal.accounts.models import Team, User
from portal.after_commit import hint
from portal.errors import Conflict, DomainError, Invalid, InvalidFields, NotFound, StorageFull

MAX_OPEN = 2_000  # open uploads of one person; a dropped folder of 1,500 images fits
MAX_SIZE_BYTES = 1 << 50
KEEP_ENDED = timedelta(days=7)
PURPOSES = ("dataset", "code")
_ENDED = (UploadState.DONE, UploadState.FAILED, UploadState.ABANDONED)


class Gone(DomainError):
    """The upload was abandoned, expired or failed; a new one must be created."""

    http_status = 410


def create_upload(
    user: User,
    *,
    file_name: str,
    size_bytes: int,
    dataset_id: object = None,
    dataset_name: str = "",
    team_id: object = None,
    purpose: str = "dataset",
    sha256: str = "",
) -> tuple[Upload, str]:
    """Reserve room and begin; returns the row and the token that its later requests may carry (shown once)."""
    sha256 = sha256.lower()
    name = clean_file_name(file_name)
    _check_wish(size_bytes, purpose, sha256)
    dataset = find_dataset(user, dataset_id) if dataset_id not in (None, "") else None
    if dataset is not None:
        require_editor(user, dataset)
    team = dataset.team if dataset is not None else _team(user, team_id)
    title = checked_name(dataset_name or Path(name).stem or name) if purpose == "dataset" and dataset is None else ""
    token = secrets.token_urlsafe(32)
    upload = Upload(
        owner=user,
        team=team,
        dataset=dataset,
        dataset_name=title,
        purpose=purpose,
        file_name=name,
        size_bytes=size_bytes,
        sha256=sha256,
        token_hash=_hash(token),
        host="" if settings.STAGING_IS_SHARED else socket.gethostname(),
    )
    _begin(upload, dataset.owner if dataset is not None else user, team)
    return upload, token


def find_upload(upload_id: object, *, user: User | None = None, token: str = "") -> Upload:
    """By the upload's own token, or by who asks. A foreign, a missing and a removed one look the same."""
    missing = NotFound("not_found", _("There is no such upload."))
    try:
        key = uuid.UUID(str(upload_id))
    except ValueError:
        raise missing from None
    upload: Upload | None = Upload.objects.select_related("owner").filter(pk=key).first()
    if upload is None or not upload.owner.is_active:
        raise missing
    if token and hmac.compare_digest(_hash(token), upload.token_hash):
        return upload
    if user is not None and Upload.objects.visible_to(user).filter(pk=key).exists():
        return upload
    raise missing


def require_open(upload: Upload) -> None:
    """Raises `Gone` with the reason when no more bytes are taken, `Conflict` when it lies on another host."""
    if upload.state == UploadState.OPEN and expires_at(upload) < timezone.now():
        raise Gone("expired", _("This upload stood still for too long and was given up. Start it again."))
    if upload.state in (UploadState.FAILED, UploadState.ABANDONED):
        raise Gone("upload_ended", upload.problem or _("This upload was given up. Start it again."))
    if not is_here(upload):
        raise Conflict("other_host", _("This upload began on %(host)s and must go on there.") % {"host": upload.host})


def is_here(upload: Upload) -> bool:
    """Whether this host can reach its staging file."""
    return upload.host in ("", socket.gethostname())


def expires_at(upload: Upload) -> datetime:
    return upload.moved_at + timedelta(seconds=settings.UPLOAD_EXPIRY_SECONDS)


def take_over(upload: Upload) -> int:
    """A new writer's epoch: any older one stops at its next look. Raises `Gone` when the upload is no longer open."""
    with transaction.atomic():
        row: Upload = Upload.objects.select_for_update().get(pk=upload.pk)
        if row.state != UploadState.OPEN:
            require_open(row)
            raise Conflict("upload_complete", _("All bytes of this upload have arrived already."))
        row.epoch += 1
        row.save(update_fields=["epoch"])
    return row.epoch


def note_piece(upload: Upload, epoch: int, offset: int, *, is_checked: bool) -> bool:
    """Before a piece's first byte: a checked one is cut back to `offset` when its writer dies. False: taken over."""
    unverified = offset if is_checked else None
    values = {"offset_bytes": offset, "unverified_from": unverified, "moved_at": timezone.now()}
    return bool(_own(upload, epoch).update(**values))


def note_progress(upload: Upload, epoch: int, offset: int | None, *, is_moving: bool) -> bool:
    """Saves how far we came (None: as before) and, while bytes come, that the upload lives. False: taken over."""
    values: dict[str, object] = {"offset_bytes": models.F("offset_bytes") if offset is None else offset}
    if is_moving:
        values["moved_at"] = timezone.now()
    return bool(_own(upload, epoch).update(**values))


def note_end(upload: Upload, epoch: int, offset: int) -> bool:
    """The piece has ended with the file synced up to `offset`; the last byte makes the upload FINISHING."""
    state = UploadState.FINISHING if offset == upload.size_bytes else UploadState.OPEN
    values = {"offset_bytes": offset, "unverified_from": None, "moved_at": timezone.now(), "state": state}
    done = bool(_own(upload, epoch).update(**values))
    if done:
        hint(f"user.{upload.owner_id}")
    return done


def note_all_here(upload: Upload) -> None:
    """Every byte is in the file, though its writer was taken over before it could say so. The caller holds the file."""
    values = {"offset_bytes": upload.size_bytes, "unverified_from": None, "moved_at": timezone.now()}
    Upload.objects.filter(pk=upload.pk, state=UploadState.OPEN).update(state=UploadState.FINISHING, **values)


def abandon(upload: Upload) -> None:
    """Give it up: nothing of it stays, its room is free at once. Raises `Conflict` once all bytes are here."""
    if not Upload.objects.filter(pk=upload.pk, state=UploadState.OPEN).update(
        state=UploadState.ABANDONED, epoch=models.F("epoch") + 1, moved_at=timezone.now()
    ):
        upload.refresh_from_db()
        require_open(upload)
        raise Conflict("upload_complete", _("All bytes have arrived; delete the dataset instead."))
    staging().remove(upload.pk)
    hint(f"user.{upload.owner_id}")


def forget(upload: Upload) -> None:
    """Take an ended upload off the list, give up an open one. Raises `Conflict` while its bytes are being stored."""
    ended, _rows = Upload.objects.filter(pk=upload.pk, state__in=_ENDED).delete()
    if ended:
        hint(f"user.{upload.owner_id}")
    else:
        abandon(upload)


def take_stored(user: User, upload_id: object, *, purpose: str) -> tuple[StoredObject, str]:
    """Hand a finished upload's object and file name to the app that asked for it; the upload's row goes.

    Call it in the transaction that makes the row which keeps the object.
    """
    upload = find_upload(upload_id, user=user)
    with transaction.atomic():
        row = Upload.objects.select_for_update().filter(pk=upload.pk).first()
        if row is None or row.purpose != purpose or row.stored is None:
            raise Conflict("upload_not_ready", _("This upload is not complete yet."))
        stored, name = row.stored, row.file_name
        row.delete()
    return stored, name


def sweep_uploads(*, older_than_seconds: float | None = None) -> int:
    """Give up uploads that stood still for UPLOAD_EXPIRY_SECONDS (how many), forget ended ones after a week."""
    age = settings.UPLOAD_EXPIRY_SECONDS if older_than_seconds is None else older_than_seconds
    now = timezone.now()
    cutoff = now - timedelta(seconds=age)
    swept = 0
    for upload in Upload.objects.filter(state=UploadState.OPEN, moved_at__lte=cutoff)[:1000]:
        # Compare-and-set: one that moved a moment ago stays.
        problem = _("Given up after %(hours).0f hours without a byte.") % {"hours": age / 3600}
        if Upload.objects.filter(pk=upload.pk, state=UploadState.OPEN, moved_at__lte=cutoff).update(
            state=UploadState.ABANDONED, problem=problem, epoch=models.F("epoch") + 1
        ):
            staging().remove(upload.pk)
            hint(f"user.{upload.owner_id}")
            swept += 1
    Upload.objects.filter(state__in=_ENDED, moved_at__lte=now - KEEP_ENDED).delete()
    _sweep_files(max(age, 60.0))
    return swept


def clean_file_name(raw: str) -> str:
    """The last part of whatever path a browser sent, in composed Unicode. Raises `Invalid`."""
    name = unicodedata.normalize("NFC", re.split(r"[/\\]", raw.strip())[-1]).strip()
    if not name or name in (".", ".."):
        raise Invalid("required", _("The upload needs a file name."), field="filename")
    if len(name) > 255:
        raise Invalid("max_length", _("The file name is longer than 255 characters."), field="filename")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise Invalid("invalid", _("The file name contains control characters."), field="filename")
    return name


def staging() -> Staging:
    return _staging(Path(settings.STAGING_DIR))


@cache
def _staging(root: Path) -> Staging:
    return Staging(root)


def _check_wish(size_bytes: int, purpose: str, sha256: str) -> None:
    errors: list[DomainError] = []
    if not 0 <= size_bytes <= MAX_SIZE_BYTES:
        errors.append(Invalid("invalid", _("The size must be between 0 bytes and 1 PiB."), field="Upload-Length"))
    if purpose not in PURPOSES:
        errors.append(Invalid("invalid_choice", _("The purpose is “dataset” or “code”."), field="purpose"))
    if sha256 and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        errors.append(Invalid("invalid", _("A SHA-256 is 64 hexadecimal digits."), field="sha256"))
    if errors:
        raise InvalidFields(errors)


def _team(user: User, team_id: object) -> Team | None:
    if team_id in (None, ""):
        return None
    text = str(team_id)
    team = Team.objects.filter(pk=int(text)).first() if text.isdecimal() and len(text) < 18 else None
    if team is None:
        raise Invalid("unknown_team", _("You are not a member of such a team."), field="team")
    check_team(user, team)
    return team


def _begin(upload: Upload, payer: User, team: Team | None) -> None:
    if upload.size_bytes > staging().free_bytes():
        raise StorageFull(
            "disk_full",
            _("The portal's disk has no room for %(size)s. An administrator must make room.")
            % {"size": in_words(upload.size_bytes)},
        )
    with transaction.atomic():
        check_room(payer, team, upload.size_bytes)
        if Upload.objects.filter(owner=upload.owner, state=UploadState.OPEN).count() >= MAX_OPEN:
            raise Conflict(
                "too_many_uploads",
                _("You have %(count)d unfinished uploads. Finish or delete some first.") % {"count": MAX_OPEN},
            )
        if upload.size_bytes == 0:
            upload.state = UploadState.FINISHING
        upload.save(force_insert=True)
        try:
            staging().create(upload.pk)
        except StorageError as error:
            raise refusal(error) from error
    hint(f"user.{upload.owner_id}")


def _own(upload: Upload, epoch: int) -> models.QuerySet[Upload]:
    return Upload.objects.filter(pk=upload.pk, epoch=epoch, state=UploadState.OPEN)


def _sweep_files(age_seconds: float) -> None:
    """Staging files without a living row: their process died between the two, or the dataset was deleted."""
    old = list(staging().older_than(age_seconds))
    for start in range(0, len(old), 500):
        some = [name for name in old[start : start + 500] if _is_uuid(name)]
        living = Upload.objects.filter(pk__in=some, state__in=(UploadState.OPEN, UploadState.FINISHING))
        known = {str(pk) for pk in living.values_list("pk", flat=True)}
        for name in some:
            if name not in known:
                staging().remove(name)


def _is_uuid(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
