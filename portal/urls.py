"""Every address that Django answers. Uploads, stored objects and sockets are routed before it, in `portal.asgi`."""

from django.contrib import admin
from django.urls import include, path
from django.views.i18n import JSONCatalog, set_language

from portal import health, views

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("", views.home, name="home"),
    path("cluster/", views.cluster_page, name="cluster"),
    path("cluster/nodes/<uuid:pk>/", views.node_page, name="node"),
    path("usage/", views.usage, name="usage"),
    path("texts.json", JSONCatalog.as_view(), name="texts"),
    path("", include("portal.accounts.urls")),
    path("", include("datasets.urls")),
    path("", include("nodes.urls")),
    path("", include("jobs.urls")),
    path("language/", set_language, name="set_language"),
    path("api/", include("portal.api_urls")),
    path("admin/", admin.site.urls),
]

handler400 = "portal.refusals.bad_request"
handler403 = "portal.refusals.forbidden"
handler404 = "portal.refusals.not_found"
handler500 = "portal.refusals.server_error"
