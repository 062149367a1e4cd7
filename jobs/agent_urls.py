"""Below /api/v1/agent/: what nodes talk to."""

from __future__ import annotations

from django.urls import path

from jobs import agent_api, agent_streams

urlpatterns = [
    path("join", agent_api.join_view, name="agent-join"),
    path("exchange", agent_api.exchange_view, name="agent-exchange"),
    path("streams", agent_streams.streams, name="agent-streams"),
    path("checkpoints", agent_streams.checkpoints, name="agent-checkpoints"),
]
