"""Addresses of the live sockets; `portal.asgi` checks the origin before it routes here."""

from django.urls import path

from jobs.consumers import ClusterSocket, JobSocket, JobsSocket

# Channels routes to ASGI applications with Django's own patterns, which are typed for views.
websocket_urlpatterns = [
    path("ws/jobs/", JobsSocket.as_asgi()),  # type: ignore[arg-type]
    path("ws/jobs/<int:pk>/", JobSocket.as_asgi()),  # type: ignore[arg-type]
    path("ws/nodes/", ClusterSocket.as_asgi()),  # type: ignore[arg-type]
]
