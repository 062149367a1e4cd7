"""What the composition root hands to the apps when all are ready."""

from __future__ import annotations

from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"

    def ready(self) -> None:
        from datasets.services import storage_use
        from jobs.services import bundles, checkpoints
        from nodes.services import broker_login
        from portal.broker import ensure_node_login

        broker_login.provide(ensure_node_login)
        storage_use.also_count(checkpoints.stored_bytes)
        storage_use.also_count(bundles.stored_bytes)
