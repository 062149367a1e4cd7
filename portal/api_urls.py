"""Everything below /api/: version 1 of the REST API, composed from the apps, its schema and a page to browse it."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from portal.quota_api import QuotaViewSet
from portal.rest import no_such_address

v1: list[URLPattern | URLResolver] = [
    path("", include("portal.accounts.api_urls")),
    path("", include("datasets.api_urls")),
    path("", include("nodes.api_urls")),
    path("", include("jobs.api_urls")),
    path("agent/", include("jobs.agent_urls")),
    path("quota/", QuotaViewSet.as_view({"get": "show"}), name="api-quota"),
]
urlpatterns = [
    path("v1/", include(v1)),
    path("schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path(
        "docs/",
        SpectacularSwaggerSplitView.as_view(url_name="api-schema", template_name="api/docs.html"),
        name="api-docs",
    ),
    path("<path:rest>", csrf_exempt(no_such_address), name="api-nothing"),
]
