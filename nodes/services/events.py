"""A node's history."""

from __future__ import annotations

from uuid import UUID

from nodes.models import NodeEvent
from portal.accounts.models import User
from portal.after_commit import hint


def add_node_event(node_id: UUID, kind: str, text: str, *, actor: User | None = None) -> NodeEvent:
    event = NodeEvent.objects.create(node_id=node_id, kind=kind, text=text, actor=actor)
    hint(f"node.{node_id}")
    hint("nodes")
    return event
