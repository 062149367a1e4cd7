"""Datasets, their immutable versions, the stored bytes, and uploads on their way."""

from __future__ import annotations

import uuid
from typing import Self

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from datasets.states import UploadState, VersionState
from portal.accounts.models import Team, User
from portal.accounts.visibility import OwnedQuerySet


class StoredObject(models.Model):
    """Verified bytes in storage, found by their SHA-256; identical content is stored once. No row, no object."""

    sha256 = models.CharField(max_length=64, unique=True)
    key = models.CharField(max_length=200, unique=True)
    size_bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(default=timezone.now)  # last handed out; the sweep spares what was just handed out

    class Meta:
        indexes = [models.Index(fields=["used_at"], name="stored_used_at")]
        verbose_name = _("stored object")
        verbose_name_plural = _("stored objects")

    def __str__(self) -> str:
        return self.sha256[:12]


class Dataset(models.Model):
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="datasets", verbose_name=_("owner")
    )
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="datasets", verbose_name=_("team")
    )
    name = models.CharField(_("name"), max_length=200)
    description = models.TextField(_("description"), blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        verbose_name = _("dataset")
        verbose_name_plural = _("datasets")
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.name


class VersionQuerySet(models.QuerySet["Version"]):
    """A version is as visible as its dataset."""

    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(dataset__in=Dataset.objects.visible_to(user))

    def editable_by(self, user: User | AnonymousUser) -> Self:
        return self.filter(dataset__in=Dataset.objects.editable_by(user))


class Version(models.Model):
    """One immutable content of a dataset. What may change is how it is read (`options`), which inspects it again."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    stored = models.ForeignKey(StoredObject, on_delete=models.PROTECT, related_name="versions")
    file_name = models.CharField(max_length=255)
    kind = models.CharField(max_length=20, blank=True)  # 'table'; '' until inspected
    state = models.CharField(
        max_length=12, choices=[(s.value, s.value) for s in VersionState], default=VersionState.WAITING
    )
    options = models.JSONField(default=dict)  # TableOptions: encoding, delimiter, header, label (what a person chose)
    facts = models.JSONField(
        default=dict
    )  # TableFacts: rows, columns, types, class counts, preview, warnings, problems
    inspection = models.PositiveIntegerField(default=0)  # counts inspections; an answer to an older one is dropped
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = VersionQuerySet.as_manager()

    class Meta:
        verbose_name = _("dataset version")
        verbose_name_plural = _("dataset versions")
        ordering = ("-number",)
        constraints = [models.UniqueConstraint(fields=["dataset", "number"], name="version_number_once")]
        indexes = [models.Index(fields=["state"], name="version_state")]

    def __str__(self) -> str:
        return f"{self.dataset} v{self.number}"


class UploadQuerySet(OwnedQuerySet):
    """Uploads belong to one person; teams do not see bytes on their way."""

    def visible_to(self, user: User | AnonymousUser) -> Self:
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self if user.is_staff or user.is_superuser else self.filter(owner=user)

    def editable_by(self, user: User | AnonymousUser) -> Self:
        return self.visible_to(user)


class Upload(models.Model):
    """Bytes on their way (tus 1.0). The offset is the staging file's synced length; `epoch` fences older PATCHes."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="uploads")
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    dataset = models.ForeignKey(Dataset, null=True, blank=True, on_delete=models.CASCADE, related_name="uploads")
    dataset_name = models.CharField(max_length=200, blank=True)
    purpose = models.CharField(max_length=10, choices=[("dataset", "dataset"), ("code", "code")], default="dataset")
    file_name = models.CharField(max_length=255)
    size_bytes = models.PositiveBigIntegerField()
    offset_bytes = models.PositiveBigIntegerField(default=0)
    unverified_from = models.PositiveBigIntegerField(null=True)  # a piece with a checksum is being written from here
    sha256 = models.CharField(max_length=64, blank=True)  # claimed at the start, or computed at the end
    token_hash = models.CharField(max_length=64)
    epoch = models.PositiveIntegerField(default=0)
    host = models.CharField(max_length=255, blank=True)  # where the staging file lies, when staging is not shared
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in UploadState], default=UploadState.OPEN)
    problem = models.TextField(blank=True)
    version = models.ForeignKey(Version, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    stored = models.ForeignKey(StoredObject, null=True, blank=True, on_delete=models.PROTECT, related_name="+")  # code
    created_at = models.DateTimeField(auto_now_add=True)
    moved_at = models.DateTimeField(auto_now_add=True)  # last byte received; the sweep goes by it

    objects = UploadQuerySet.as_manager()

    class Meta:
        verbose_name = _("upload")
        verbose_name_plural = _("uploads")
        ordering = ("-created_at", "-id")
        indexes = [
            models.Index(fields=["owner", "state"], name="upload_owner_state"),
            models.Index(fields=["state", "moved_at"], name="upload_state_moved"),
        ]

    def __str__(self) -> str:
        return self.file_name
