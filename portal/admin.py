"""People, teams, quotas and the audit log in the admin.

It stands at the root and not in `portal.accounts`, because it shows use (jobs, devices, storage) beside the limits.
"""

from __future__ import annotations

from typing import Any

from auditlog.admin import LogEntryAdmin
from auditlog.models import LogEntry
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.views import ChangeList

from portal import quota_use
from portal.accounts import services
from portal.accounts.models import Membership, Quota, Team, User
from portal.admin_base import ModelAdmin, StackedInline, TabularInline, display

COUNTED = {
    "max_devices": "devices",
    "max_running_jobs": "running_jobs",
    "max_queued_jobs": "queued_jobs",
    "max_storage_bytes": "storage_bytes",
}
USE_COLUMNS = ("devices", "running_jobs", "queued_jobs", "storage_bytes")


def _said(name: str, value: float) -> str:
    return filesizeformat(value) if name == "storage_bytes" else f"{value:g}"


def _now(name: str) -> Any:
    """A read-only field of a quota: its present use of one limit, counted once per shown quota."""

    @display(description=gettext_lazy("in use now"))
    def show(_admin: Any, quota: Quota) -> str:
        subject = quota.user or quota.team
        if subject is None or subject.pk is None:
            return "–"
        if not hasattr(quota, "use"):
            quota.use = quota_use.use_of(subject)  # type: ignore[attr-defined]
        return _said(name, getattr(quota.use, name))  # type: ignore[attr-defined]

    return show


def _column(name: str) -> Any:
    """A list column 'use / limit'."""

    @display(description=quota_use.LABELS[name])
    def show(_admin: Any, subject: User | Team) -> str:
        rows = quota_use.rows_of(getattr(subject, "quota", None), subject.use)  # type: ignore[union-attr]
        row = next(row for row in rows if row.name == name)
        used = _said(name, row.used)
        return used if row.limit is None else f"{used} / {_said(name, row.limit)}"

    return show


class QuotaFields:
    """The counted limits, each beside its present use."""

    devices_now = _now("devices")
    running_jobs_now = _now("running_jobs")
    queued_jobs_now = _now("queued_jobs")
    storage_bytes_now = _now("storage_bytes")
    readonly_fields: Any = tuple(f"{name}_now" for name in COUNTED.values())
    limits_beside_use = (*((limit, f"{name}_now") for limit, name in COUNTED.items()), "max_job_seconds")


def save_quota(request: HttpRequest, quota: Quota) -> None:
    """Through the service, which takes the locks that submit takes; warns when a limit is below the present use."""
    subject = quota.user or quota.team
    if subject is None:
        raise ValueError("a quota without user or team")
    limits = {name: getattr(quota, name) for name in services.LIMITS}
    saved = services.set_quota(request.user, subject, **limits)  # type: ignore[arg-type]
    quota.pk = saved.pk
    for warning in quota_use.contradictions(saved):
        messages.warning(request, warning)


class QuotaInline(QuotaFields, StackedInline):
    model = Quota
    max_num = 1
    can_delete = False
    fields = QuotaFields.limits_beside_use


class MembershipInline(TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user", "team")


class UseChangeList(ChangeList):
    """Counts the use of a whole page at once: the number of queries does not grow with the rows."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)  # type: ignore[has-type]
        uses = quota_use.uses_of_users(rows) if self.model is User else quota_use.uses_of_teams(rows)
        for row in rows:
            row.use = uses[row.pk]
        self.result_list = rows


class WithQuota(ModelAdmin):
    devices = _column("devices")
    running_jobs = _column("running_jobs")
    queued_jobs = _column("queued_jobs")
    storage_bytes = _column("storage_bytes")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return UseChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("quota")

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return (QuotaInline, MembershipInline) if obj else ()

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        if formset.model is not Quota:
            super().save_formset(request, form, formset, change)
            return
        for quota in formset.save(commit=False):
            save_quota(request, quota)


@admin.register(User)
class PersonAdmin(UserAdmin, WithQuota):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", *USE_COLUMNS)
    list_filter = ("is_active", "is_staff", "teams")
    compressed_fields = True

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Only superusers hand out rights; else anybody who may edit users could make themselves one."""
        if request.user.is_superuser:
            return ("last_login", "date_joined")
        return ("last_login", "date_joined", "is_staff", "is_superuser", "groups", "user_permissions")

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)


def _may_touch(request: HttpRequest, person: User | None) -> bool:
    """Staff may not change staff (a new password would be a way to more rights)."""
    return bool(person is None or request.user.is_superuser or not (person.is_superuser or person.is_staff))


@admin.register(Team)
class TeamAdmin(WithQuota):
    list_display = ("name", *USE_COLUMNS)
    search_fields = ("name",)
    readonly_fields = ("created_at",)


class QuotaForm(ModelForm):
    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.instance.pk is None and bool(data.get("user")) == bool(data.get("team")):
            raise ValidationError(_("A quota belongs to one user or to one team: choose one of them."))
        return data


@admin.register(Quota)
class QuotaAdmin(QuotaFields, ModelAdmin):
    form = QuotaForm
    list_display = ("__str__", *COUNTED, "max_job_seconds")
    list_select_related = ("user", "team")
    search_fields = ("user__username", "team__name")
    autocomplete_fields = ("user", "team")
    fields: Any = (("user", "team"), *QuotaFields.limits_beside_use)

    def get_readonly_fields(self, request: HttpRequest, obj: Quota | None = None) -> Any:
        return (*self.readonly_fields, "user", "team") if obj else self.readonly_fields

    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        save_quota(request, obj)


admin.site.unregister(LogEntry)


@admin.register(LogEntry)
class AuditAdmin(LogEntryAdmin, ModelAdmin):
    """Who changed what: read-only for everybody."""

    list_display = ("created", "user_url", "action", "resource_url", "msg_short")
    list_filter = ("action", "content_type")
    search_fields = ("object_repr", "actor__username")
