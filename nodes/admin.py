"""Nodes and join codes in the admin. Nodes change only by what their agents tell and by the actions here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from nodes.models import Device, JoinCode, Node, NodeEvent
from nodes.services import admission
from nodes.services.joining import make_join_code
from portal.accounts.models import User
from portal.admin_base import ModelAdmin, ReadOnlyAdmin, ShownInline, action, display
from portal.errors import DomainError


class DeviceInline(ShownInline):
    model = Device
    fields = ("index", "kind", "uuid", "memory_bytes", "is_healthy", "is_present", "trouble")


class EventInline(ShownInline):
    model = NodeEvent
    fields = ("at", "kind", "text", "actor")
    max_num = 20
    per_page = 20

    def get_queryset(self, request: HttpRequest) -> QuerySet[NodeEvent]:
        return super().get_queryset(request).select_related("actor")


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    list_display = ("name", "state", "admission", "device_count", "hostname", "exchanged_at")
    list_filter = ("state", "admission")
    search_fields = ("name", "hostname", "address")
    exclude = ("token_hash", "broker_secret", "session", "counter", "exchanges", "rev")
    inlines = (DeviceInline, EventInline)
    actions = ("cordon", "uncordon", "drain")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Node]:
        present = Count("devices", filter=Q(devices__is_present=True))
        return super().get_queryset(request).annotate(device_count=present)

    @display(description=gettext_lazy("devices"), ordering="device_count")
    def device_count(self, node: Any) -> int:
        return int(node.device_count)

    def has_act_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("nodes.change_node"))

    @action(description=gettext_lazy("Cordon: take no new jobs, running ones go on"), permissions=["act"])
    def cordon(self, request: HttpRequest, rows: QuerySet[Node]) -> None:
        self._admit(request, rows, admission.cordon)

    @action(description=gettext_lazy("Uncordon: take new jobs again"), permissions=["act"])
    def uncordon(self, request: HttpRequest, rows: QuerySet[Node]) -> None:
        self._admit(request, rows, admission.uncordon)

    @action(description=gettext_lazy("Drain: take no new jobs, move running ones"), permissions=["act"])
    def drain(self, request: HttpRequest, rows: QuerySet[Node]) -> None:
        self._admit(request, rows, admission.drain)

    def _admit(self, request: HttpRequest, rows: QuerySet[Node], act: Callable[[User, Node], Node]) -> None:
        try:
            changed = [act(request.user, node) for node in rows]  # type: ignore[arg-type]
        except DomainError as error:
            self.message_user(request, error.message, messages.ERROR)
            return
        said = ngettext("%(count)d node is changed.", "%(count)d nodes are changed.", len(changed))
        self.message_user(request, said % {"count": len(changed)}, messages.SUCCESS)


@admin.register(JoinCode)
class JoinCodeAdmin(ModelAdmin):
    """One-time codes by which agents join. A new code's text is shown once."""

    list_display = ("created_at", "node_name", "created_by", "expires_at", "used_at", "node")
    list_select_related = ("created_by", "node")
    fields = ("node_name",)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: JoinCode, form: Any, change: bool) -> None:
        text = make_join_code(request.user, node_name=obj.node_name)  # type: ignore[arg-type]
        made = JoinCode.objects.filter(created_by_id=request.user.pk).latest("pk")
        obj.pk, obj.code_hash, obj.expires_at = made.pk, made.code_hash, made.expires_at
        said = _("Join with this code, it is not shown again: python -m nodes.agent join %(url)s %(code)s")
        messages.warning(request, said % {"url": request.build_absolute_uri("/"), "code": text})
