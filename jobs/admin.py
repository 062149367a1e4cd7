"""Jobs in the admin: to look at and to cancel. They are submitted through form and API only."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy, ngettext

from jobs.models import Attempt, CodeBundle, Job, JobEvent
from jobs.services.stop import cancel_job
from portal.admin_base import ReadOnlyAdmin, ShownInline, action
from portal.errors import DomainError


class AttemptInline(ShownInline):
    model = Attempt
    fields = ("number", "state", "reason", "reason_text", "created_at", "running_at", "ended_at")


class EventInline(ShownInline):
    model = JobEvent
    fields = ("at", "kind", "text", "actor")
    per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[JobEvent]:
        return super().get_queryset(request).select_related("actor")


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "state", "reason", "owner", "team", "device_count", "created_at", "ended_at")
    list_display_links = ("id", "name")
    list_filter = ("state", "purpose", "reason", "team")
    list_select_related = ("owner", "team")
    search_fields = ("name", "owner__username")
    show_full_result_count = False
    exclude = ("idempotency_key", "spec_hash")
    inlines = (AttemptInline, EventInline)
    actions = ("cancel",)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("jobs.change_job"))

    @action(description=gettext_lazy("Cancel the chosen jobs"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        done = 0
        for job in rows:
            try:
                cancel_job(request.user, job)  # type: ignore[arg-type]
                done += 1
            except DomainError as error:
                self.message_user(request, f"{job}: {error.message}", messages.ERROR)
        if done:
            said = ngettext(
                "%(count)d job is cancelled or stopping.", "%(count)d jobs are cancelled or stopping.", done
            )
            self.message_user(request, said % {"count": done}, messages.SUCCESS)


@admin.register(CodeBundle)
class CodeBundleAdmin(ReadOnlyAdmin):
    """Counts against its owner's storage until it is deleted here; jobs that name it cannot run again afterwards."""

    list_display = ("file_name", "owner", "created_at")
    list_select_related = ("owner",)
    search_fields = ("file_name", "owner__username")

    def has_delete_permission(self, request: HttpRequest, obj: CodeBundle | None = None) -> bool:  # type: ignore[override]
        return bool(request.user.has_perm("jobs.delete_codebundle"))
