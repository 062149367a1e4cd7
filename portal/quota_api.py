"""REST: what the caller and their teams use now, beside their limits."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Quota, Team, User
from portal.quota_use import Use, rows_of, uses_of_teams, uses_of_users
from portal.rest import RestViewSet


class LimitSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="devices, running_jobs, queued_jobs or storage_bytes")
    used = serializers.FloatField()
    limit = serializers.IntegerField(allow_null=True, help_text="null: unlimited")


class SubjectSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=[("user", "user"), ("team", "team")])
    name = serializers.CharField()
    max_job_seconds = serializers.IntegerField(allow_null=True, help_text="Longest job; null: unlimited")
    limits = LimitSerializer(many=True)


class QuotaSerializer(serializers.Serializer[Any]):
    """A job needs room both in its owner's and in its team's limits."""

    user = SubjectSerializer()
    teams = SubjectSerializer(many=True)


class QuotaViewSet(RestViewSet):
    serializer_class = QuotaSerializer

    @extend_schema(summary="Your use and your teams' use beside the limits", responses=QuotaSerializer)
    def show(self, request: Request) -> Response:
        user = User.objects.select_related("quota").get(pk=self.person.pk)
        teams = list(Team.objects.filter(members=user).select_related("quota"))
        uses = uses_of_teams(teams)
        body = {
            "user": _subject("user", user, uses_of_users([user])[user.pk]),
            "teams": [_subject("team", team, uses[team.pk]) for team in teams],
        }
        return Response(QuotaSerializer(body).data)


def _subject(kind: str, subject: User | Team, use: Use) -> dict[str, Any]:
    quota: Quota | None = getattr(subject, "quota", None)
    return {
        "kind": kind,
        "name": str(subject),
        "max_job_seconds": quota.max_job_seconds if quota else None,
        "limits": rows_of(quota, use),
    }
