from django.urls import path

from jobs.api import JobViewSet, QueueViewSet
from jobs.bundles_api import BundleViewSet
from jobs.checkpoints_api import CheckpointViewSet, JobUsageViewSet, SeatViewSet
from jobs.queries import ExportQuery, names_of
from jobs.results_api import LogViewSet, SeriesViewSet
from portal.rest import router

series_csv = SeriesViewSet.as_view({"get": "series_csv"}, query_parameters=names_of(ExportQuery))

_router = router()
_router.register("jobs", JobViewSet, basename="api-job")
_router.register("jobs", SeriesViewSet, basename="api-job-results")
_router.register("jobs", LogViewSet, basename="api-job-logs")
_router.register("jobs", CheckpointViewSet, basename="api-job-checkpoints")
_router.register("jobs", JobUsageViewSet, basename="api-job-usage")
_router.register("seats", SeatViewSet, basename="api-seat")
_router.register("bundles", BundleViewSet, basename="api-bundle")
_router.register("queue", QueueViewSet, basename="api-queue")

urlpatterns = [*_router.urls, path("jobs/<int:pk>/series.csv", series_csv, name="api-job-series-csv")]
