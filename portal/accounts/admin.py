"""Memberships, API tokens and groups in the admin. People, teams and quotas are in `portal.admin` (they show use)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext as _

from portal.accounts import services
from portal.accounts.models import ApiToken, Membership
from portal.admin_base import ModelAdmin

admin.site.unregister(Group)


@admin.register(Group)
class RightsGroupAdmin(GroupAdmin, ModelAdmin):
    """Bundles of admin rights; teams of researchers are something else."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.is_superuser)

    has_add_permission = has_change_permission
    has_delete_permission = has_change_permission


@admin.register(Membership)
class MembershipAdmin(ModelAdmin):
    list_display = ("user", "team", "role")
    list_filter = ("role", "team")
    list_select_related = ("user", "team")
    search_fields = ("user__username", "team__name")
    autocomplete_fields = ("user", "team")


@admin.register(ApiToken)
class ApiTokenAdmin(ModelAdmin):
    """Shows and revokes tokens of everybody; a new one is always one's own, and its text is shown once."""

    list_display = ("token_key", "user", "name", "scope", "created", "last_used_at", "expiry")
    list_filter = ("scope",)
    list_select_related = ("user",)
    search_fields = ("user__username", "name", "token_key")
    fields = ("name", "scope", "expiry")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        made, text = services.create_token(
            request.user,  # type: ignore[arg-type]
            name=obj.name,
            scope=obj.scope,
            expires_at=obj.expiry,
        )
        obj.pk, obj.token_key, obj.user, obj.created = made.pk, made.token_key, made.user, made.created
        messages.warning(request, _("Copy the token now, it is not shown again: %(text)s") % {"text": text})
