"""Nodes, their devices, join codes, usage and events."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from nodes.states import Admission, NodeState


class Node(models.Model):
    """A machine that runs launches. Its id is made once by the agent and kept on its disk; host names may repeat."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(_("name"), max_length=100, unique=True)
    hostname = models.CharField(_("host name"), max_length=255, blank=True)
    address = models.CharField(_("address"), max_length=255, blank=True)
    token_hash = models.CharField(max_length=64, db_index=True)
    state = models.CharField(
        _("state"), max_length=10, choices=[(s.value, s.value) for s in NodeState], default=NodeState.NEW
    )
    admission = models.CharField(
        _("admission"), max_length=10, choices=[(a.value, a.value) for a in Admission], default=Admission.OPEN
    )
    joined_at = models.DateTimeField(_("joined at"), auto_now_add=True)
    exchanged_at = models.DateTimeField(_("last heartbeat"), null=True, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    session = models.UUIDField(null=True, blank=True)
    counter = models.PositiveBigIntegerField(default=0)
    exchanges = models.PositiveBigIntegerField(default=0)  # all there were; the leader watches it move by its own clock
    conflict = models.TextField(blank=True)  # names both sessions
    # The session before this one: if it speaks on, two agents share the id.
    former_session = models.UUIDField(null=True, blank=True)
    former_counter = models.PositiveBigIntegerField(default=0)
    former_at = models.DateTimeField(null=True, blank=True)  # when it was last heard
    clock_skew_seconds = models.FloatField(default=0.0)  # node's clock minus the portal's at receipt; shown, never used
    facts = models.JSONField(default=dict)  # NodeFacts
    usage = models.JSONField(default=dict)  # newest sample, with agent memory
    broker_secret = models.CharField(
        max_length=100, blank=True
    )  # its login at the broker, made again after a broker loss
    rev = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = _("node")
        verbose_name_plural = _("nodes")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    index = models.PositiveIntegerField()
    uuid = models.CharField(max_length=100)
    kind = models.CharField(max_length=64)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    is_healthy = models.BooleanField(default=True)
    is_present = models.BooleanField(default=True)  # no longer reported: kept for history, given to nobody
    trouble = models.CharField(max_length=300, blank=True)
    usage = models.JSONField(default=dict)  # utilisation, memory_used_bytes, temperature_celsius, power_watts

    class Meta:
        verbose_name = _("device")
        verbose_name_plural = _("devices")
        ordering = ("node", "index")
        constraints = [models.UniqueConstraint(fields=["node", "uuid"], name="device_once_per_node")]

    def __str__(self) -> str:
        return f"{self.node} {self.kind} {self.index}"


class JoinCode(models.Model):
    """A one-time code that lets one agent join; only its hash is kept."""

    code_hash = models.CharField(max_length=64, unique=True)
    node_name = models.CharField(max_length=100, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    node = models.ForeignKey(Node, null=True, on_delete=models.SET_NULL, related_name="+")


class UsageBatch(models.Model):
    """Some seconds of a node's usage, packed: rows of float64 (time, cpu, memory bytes, device 0, device 1, ...)."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="usage_batches")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    width = models.PositiveIntegerField()  # float64 per row
    blob = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["node", "last_at"], name="usage_node_time")]


class NodeEvent(models.Model):
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=40)
    text = models.TextField(blank=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ("-id",)
