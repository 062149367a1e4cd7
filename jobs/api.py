"""REST: jobs and the queue. What a job leaves behind (series, logs, checkpoints, usage) is in `results_api`."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, F, OuterRef, Prefetch, QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import schema  # noqa: F401 - registers how pydantic models are described
from jobs.filters import JobFilter
from jobs.models import Attempt, Job, JobQuerySet, Placement, Seat
from jobs.parsers import JsonParser, YamlParser
from jobs.queries import PAGE, EventQuery, RerunQuery, names_of, read_query
from jobs.serializers import (
    AttemptSerializer,
    CheckSerializer,
    EventSerializer,
    JobListSerializer,
    JobSerializer,
    QueuedSerializer,
    Wish,
)
from jobs.services.stop import cancel_job
from jobs.services.submit import WishReport, check_wish, submit_once
from jobs.spec import JobSpec
from jobs.spec_text import write_wish
from jobs.states import JobState
from jobs.wish_body import beside_spec, idempotency_key, in_spec, read_wish
from portal.errors import InvalidFields
from portal.rest import RestViewSet

KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Up to 200 characters of your own. A second submit with the same key and body answers with the first's"
    " job (200) and starts nothing; with another body it is refused (409).",
)
_FROM_SPEC = {"strategy": F("spec__strategy"), "framework": F("spec__framework")}


class JobRows(RestViewSet):
    """Jobs by who may see them; the base of everything under /jobs/."""

    lookup_value_regex = r"[0-9]{1,18}"
    queryset = Job.objects.none()

    def get_queryset(self) -> JobQuerySet:
        return Job.objects.visible_to(self.request.user)

    def get_object(self) -> Job:
        rows = self.get_queryset().select_related("owner", "team", "ended_by").annotate(**_FROM_SPEC)
        job: Job = rows.get_visible(self.request.user, self.kwargs["pk"])
        return job


@extend_schema_view(
    list=extend_schema(summary="Jobs you may see, newest first"),
    retrieve=extend_schema(summary="One job with its spec"),
)
class JobViewSet(ListModelMixin, RetrieveModelMixin, JobRows):
    filterset_class = JobFilter
    parser_classes = (JsonParser, YamlParser)

    def get_queryset(self) -> JobQuerySet:
        rows = super().get_queryset()
        return rows.for_list().annotate(framework=F("spec__framework")) if self.action == "list" else rows

    def get_serializer_class(self) -> Any:
        return JobListSerializer if self.action == "list" else JobSerializer

    @extend_schema(
        summary="Submit a job",
        request={"application/json": Wish, "application/yaml": Wish},
        parameters=[KEY],
        responses={201: JobSerializer, 200: OpenApiResponse(JobSerializer, "Submitted before with the same key.")},
    )
    def create(self, request: Request) -> Response:
        wish = read_wish(request)
        key = idempotency_key(request)
        with beside_spec():
            submitted = submit_once(
                self.person,
                wish.spec,
                team=wish.team,
                secrets=wish.secrets,
                idempotency_key=key,
                origin=wish.origin,
                resume_from=wish.resume_from,
            )
        self.kwargs["pk"] = submitted.job.pk
        body = JobSerializer(self.get_object()).data
        place = request.build_absolute_uri(f"{request.path}{submitted.job.pk}/")
        return Response(body, status=201 if submitted.is_new else 200, headers={"Location": place})

    @extend_schema(
        summary="Check a job without submitting it",
        request={"application/json": Wish, "application/yaml": Wish},
        responses=CheckSerializer,
    )
    @action(detail=False, methods=["post"], filterset_class=None, pagination_class=None)
    def check(self, request: Request) -> Response:
        try:
            wish = read_wish(request)
        except InvalidFields as error:
            return Response(CheckSerializer(WishReport(error.errors, False, "", [])).data)
        report = check_wish(self.person, wish.spec, wish.team, secret_names=list(wish.secrets))
        for problem in report.problems:
            problem.field = in_spec(problem.field or "")
        return Response(CheckSerializer(report).data)

    @extend_schema(summary="Cancel a job", request=None, responses=JobSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        cancel_job(self.person, self.get_object())
        return Response(JobSerializer(self.get_object()).data)

    @extend_schema(
        summary="What happened to a job, oldest first", parameters=[EventQuery], responses=EventSerializer(many=True)
    )
    @action(detail=True, filterset_class=None, ordering=("id",), query_parameters=PAGE | names_of(EventQuery))
    def events(self, request: Request, pk: str) -> Response:
        rows = self.get_object().events.select_related("actor")
        since = read_query(request, EventQuery)["since"]
        page = self.paginate_queryset(rows.filter(rev__gt=since) if since else rows)
        return self.get_paginated_response(EventSerializer(page, many=True).data)

    @extend_schema(summary="Every attempt with its nodes and devices", responses=AttemptSerializer(many=True))
    @action(detail=True, filterset_class=None, pagination_class=None)
    def attempts(self, request: Request, pk: str) -> Response:
        seats = Prefetch("seats", Seat.objects.select_related("device").order_by("device__index"))
        placements = Prefetch("placements", Placement.objects.select_related("node").prefetch_related(seats))
        rows = Attempt.objects.filter(job=self.get_object()).prefetch_related(placements)
        return Response(AttemptSerializer(rows, many=True).data)

    @extend_schema(
        summary="The body that submits this job again",
        parameters=[RerunQuery],
        responses={(200, "application/json"): Wish, (200, "application/yaml"): Wish},
    )
    @action(detail=True, filterset_class=None, query_parameters=names_of(RerunQuery))
    def rerun(self, request: Request, pk: str) -> Response | HttpResponse:
        job = self.get_object()
        spec = JobSpec.model_validate(job.spec)
        around = {"team": job.team_id, "origin": job.pk}
        if read_query(request, RerunQuery)["form"] == "yaml":
            return HttpResponse(write_wish(spec, around), content_type="application/yaml; charset=utf-8")
        return Response({**around, "spec": spec.model_dump(mode="json")})


class QueueViewSet(ListModelMixin, RestViewSet):
    """All waiting jobs in their order. Of jobs that you may not see, only place and size are shown."""

    serializer_class = QueuedSerializer
    ordering = ("position", "id")
    queryset = Job.objects.none()

    def get_queryset(self) -> QuerySet[Job]:
        waiting = Job.objects.of_people().filter(state=JobState.QUEUED, position__isnull=False)
        mine = Job.objects.visible_to(self.request.user).filter(pk=OuterRef("pk"))
        return waiting.for_list().annotate(is_visible=Exists(mine))
