"""What the live cluster page shows of the nodes themselves."""

from __future__ import annotations

from typing import Any

from nodes.models import Device, Node


def node_states() -> list[dict[str, Any]]:
    """Every node with its devices, as JSON, by name. The page counts the heartbeat's age from `exchanged_at`."""
    return [node_state(node) for node in Node.objects.order_by("name").prefetch_related("devices")]


def node_state(node: Node) -> dict[str, Any]:
    devices = sorted(node.devices.all(), key=lambda device: device.index)
    return {
        "id": str(node.pk),
        "name": node.name,
        "hostname": node.hostname,
        "address": node.address,
        "state": node.state,
        "admission": node.admission,
        "conflict": node.conflict,
        "exchanged_at": node.exchanged_at.isoformat() if node.exchanged_at else None,
        "clock_skew_seconds": round(node.clock_skew_seconds, 3),
        "cpu_count": node.facts.get("cpu_count"),
        "memory_bytes": node.facts.get("memory_bytes"),
        "sandbox": node.facts.get("sandbox"),
        "usage": node.usage,
        "devices": [_device(device) for device in devices if device.is_present],
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "id": device.pk,
        "index": device.index,
        "kind": device.kind,
        "memory_bytes": device.memory_bytes,
        "is_healthy": device.is_healthy,
        "trouble": device.trouble,
        "usage": device.usage,
    }
