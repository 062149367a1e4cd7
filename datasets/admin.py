"""Datasets, versions, uploads and stored objects in the admin: to look at, to delete through services."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from datasets.models import Dataset, StoredObject, Upload, Version
from datasets.services.datasets import delete_dataset
from datasets.services.storage_use import in_words
from datasets.services.uploads import abandon
from portal.accounts.models import User
from portal.admin_base import ReadOnlyAdmin, TabularInline, action
from portal.errors import DomainError


class VersionInline(TabularInline):
    model = Version
    fields = ("number", "file_name", "kind", "state", "created_by", "created_at")
    readonly_fields = fields
    extra = 0
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Dataset)
class DatasetAdmin(ReadOnlyAdmin):
    list_display = ("name", "owner", "team", "created_at")
    list_select_related = ("owner", "team")
    search_fields = ("name", "owner__username")
    list_filter = ("team",)
    inlines = (VersionInline,)
    actions = ("delete_chosen",)

    def has_delete_chosen_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("datasets.delete_dataset"))

    @action(description=_("Delete the chosen datasets"), permissions=["delete_chosen"])
    def delete_chosen(self, request: HttpRequest, rows: QuerySet[Dataset]) -> None:
        for dataset in rows:
            _attempt(self, request, partial(delete_dataset, cast("User", request.user), dataset))


@admin.register(Version)
class VersionAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "file_name", "kind", "state", "created_by", "created_at")
    list_select_related = ("dataset", "created_by")
    list_filter = ("state", "kind")
    search_fields = ("file_name", "dataset__name")


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    """Bytes on their way count against quotas, so admins see them here and can give them up."""

    list_display = ("file_name", "owner", "state", "arrived", "moved_at", "problem")
    list_select_related = ("owner",)
    list_filter = ("state", "purpose")
    search_fields = ("file_name", "owner__username")
    exclude = ("token_hash",)
    actions = ("give_up",)

    @admin.display(description=_("arrived"))
    def arrived(self, upload: Upload) -> str:
        return f"{in_words(upload.offset_bytes)} / {in_words(upload.size_bytes)}"

    def has_give_up_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("datasets.change_upload"))

    @action(description=_("Give up the chosen uploads"), permissions=["give_up"])
    def give_up(self, request: HttpRequest, rows: QuerySet[Upload]) -> None:
        for upload in rows:
            _attempt(self, request, partial(abandon, upload))


@admin.register(StoredObject)
class StoredObjectAdmin(ReadOnlyAdmin):
    list_display = ("sha256", "size", "created_at", "used_at")
    search_fields = ("sha256",)

    @admin.display(description=_("size"), ordering="size_bytes")
    def size(self, stored: StoredObject) -> str:
        return in_words(stored.size_bytes)


def _attempt(view: ReadOnlyAdmin, request: HttpRequest, act: Callable[[], None]) -> None:
    try:
        act()
    except DomainError as error:
        view.message_user(request, error.message, messages.ERROR)
