"""Who may see or change a row, asked when it is fetched: the same for HTML, REST, sockets, downloads and admin."""

from __future__ import annotations

from typing import Any, Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q

from portal.accounts.models import Membership, User
from portal.errors import NotFound


class OwnedQuerySet(models.QuerySet[Any]):
    """For models with `owner` (a user) and `team` (optional): owner and team see, owner and team managers edit.

    Staff and superusers see and edit all.
    """

    def visible_to(self, user: User | AnonymousUser) -> Self:
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_staff or user.is_superuser:
            return self
        return self.filter(Q(owner=user) | Q(team__in=Membership.objects.filter(user=user).values("team")))

    def editable_by(self, user: User | AnonymousUser) -> Self:
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_staff or user.is_superuser:
            return self
        managed = Membership.objects.filter(user=user, role=Membership.Role.MANAGER).values("team")
        return self.filter(Q(owner=user) | Q(team__in=managed))

    def get_visible(self, user: User | AnonymousUser, pk: object) -> Any:
        """The row, or `NotFound`: a foreign row and a missing one look the same."""
        try:
            return self.visible_to(user).get(pk=pk)
        except (self.model.DoesNotExist, ValueError, TypeError, OverflowError) as error:
            raise NotFound("not_found", f"There is no such {self.model._meta.verbose_name}.") from error
