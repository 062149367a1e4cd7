"""The one place the admin's base classes come from, so that the look can be changed here alone."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.http import HttpRequest
from django_vite.templatetags.django_vite import vite_asset_url
from unfold.admin import ModelAdmin, StackedInline, TabularInline
from unfold.decorators import action, display

__all__ = [
    "ModelAdmin",
    "ReadOnlyAdmin",
    "ShownInline",
    "StackedInline",
    "TabularInline",
    "action",
    "display",
    "icon_url",
]


def icon_url(_request: HttpRequest) -> str:
    """The portal's icon for the admin's pages (`UNFOLD` in the settings)."""
    return str(vite_asset_url("src/favicon.svg"))


class ReadOnlyAdmin(ModelAdmin):
    """Rows that only services write: the admin shows them and offers named actions, no form."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions


class ShownInline(TabularInline):
    """Rows of another table, to look at. `fields` names the columns."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fields
