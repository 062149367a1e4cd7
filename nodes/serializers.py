"""Nodes and their devices, as the REST API shows them. Everybody signed in may see them; who uses them is in `jobs`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rest_framework import serializers

from nodes.models import Device, Node, NodeEvent
from nodes.states import Admission, NodeState


class DeviceSerializer(serializers.ModelSerializer[Device]):
    usage = serializers.DictField(
        read_only=True,
        help_text="utilisation (0..1), memory_used_bytes, temperature_celsius, power_watts; null where unknown",
    )

    class Meta:
        model = Device
        fields = ("index", "uuid", "kind", "memory_bytes", "is_healthy", "is_present", "trouble", "usage")
        read_only_fields = fields


class NodeSerializer(serializers.ModelSerializer[Node]):
    state = serializers.ChoiceField(choices=[state.value for state in NodeState], read_only=True)
    admission = serializers.ChoiceField(choices=[item.value for item in Admission], read_only=True)
    facts = serializers.DictField(read_only=True)
    usage = serializers.DictField(read_only=True, help_text="Newest sample.")
    devices = DeviceSerializer(many=True, read_only=True)

    class Meta:
        model = Node
        fields = (
            "id",
            "name",
            "hostname",
            "address",
            "state",
            "admission",
            "joined_at",
            "exchanged_at",
            "conflict",
            "clock_skew_seconds",
            "facts",
            "usage",
            "devices",
            "rev",
        )
        read_only_fields = fields


class NodeEventSerializer(serializers.ModelSerializer[NodeEvent]):
    actor = serializers.CharField(source="actor.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = NodeEvent
        fields = ("id", "at", "kind", "text", "actor")
        read_only_fields = fields


class UsageSerializer(serializers.Serializer[Any]):
    """Columns of equal length. Times are seconds since 1970 by the portal's clock; null where there was no value."""

    node = serializers.UUIDField()
    name = serializers.CharField()
    time = serializers.ListField(child=serializers.FloatField())
    cpu = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="0..1 over all cores")
    memory_used_bytes = serializers.ListField(child=serializers.FloatField(allow_null=True))
    device_utilisation = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(allow_null=True)), help_text="0..1, by device index"
    )


def usage_body(node: Node, rows: NDArray[np.float64]) -> dict[str, Any]:
    """What `UsageSerializer` describes, from rows as `nodes.services.usage` gives them."""
    columns = [[None if math.isnan(value) else value for value in column] for column in rows.T.tolist()]
    time, cpu, memory, *devices = columns
    return {
        "node": node.pk,
        "name": node.name,
        "time": time,
        "cpu": cpu,
        "memory_used_bytes": memory,
        "device_utilisation": devices,
    }
