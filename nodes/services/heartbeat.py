"""What an exchange says of the node itself: its session, facts, devices and usage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from nodes.messages import DeviceReport, Exchange
from nodes.models import Device, Node
from nodes.services.events import add_node_event
from nodes.services.usage import keep_usage
from nodes.states import NodeState
from portal.after_commit import hint


@dataclass(frozen=True)
class Heard:
    node: Node
    is_current: bool  # of the session that counts; False: an older one's late words
    is_new_session: bool
    is_rebooted: bool
    is_in_order: bool  # not a repetition of something heard already


def hear(node_id: UUID, message: Exchange) -> Heard:
    """Record it. A former session that speaks on puts the node in conflict, until one of the two has been silent:
    it may well be the newer one, on a copied machine, that is ended. Then the former one counts again.
    """
    now = timezone.now()
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True).get(pk=node_id)
        before = (node.session, node.boot_id, node.counter, node.state)
        is_former = node.former_session is not None and message.session == node.former_session
        if is_former and not _is_silent_since(node.exchanged_at, now):
            _hear_former(node, message, now)
            return Heard(node, is_current=False, is_new_session=False, is_rebooted=False, is_in_order=False)
        is_new = node.session != message.session
        _hear_current(node, message, now, is_new=is_new)
        if node.state != before[3]:
            add_node_event(node.pk, "state", _state_text(before[3], node))
            hint("master")
        _note_devices(node, message.devices, is_first=message.facts is not None)
        keep_usage(node, message.usage, now)
        hint(f"node.{node.pk}", node.rev)
        hint("nodes")
    return Heard(
        node,
        is_current=True,
        is_new_session=is_new,
        is_rebooted=bool(before[1]) and before[1] != message.boot_id,
        is_in_order=is_new or message.counter > before[2],
    )


def _hear_former(node: Node, message: Exchange, now: datetime) -> None:
    """One message may have been on its way when the agent was started anew; a second one means two agents."""
    if message.counter <= node.former_counter + 1:
        return
    changes: dict[str, Any] = {"former_counter": message.counter - 1, "former_at": now, "state": NodeState.CONFLICT}
    first = node.state != NodeState.CONFLICT
    changes["conflict"] = _("Two agents use this node's id: %(a)s (%(b)s) and %(c)s (%(d)s). End one of them.") % {
        "a": node.hostname,
        "b": node.address,
        "c": message.hostname,
        "d": message.address,
    }
    _change(node, changes if first else {"former_counter": changes["former_counter"], "former_at": now})
    Node.objects.filter(pk=node.pk).update(exchanges=F("exchanges") + 1)  # somebody lives there: it is not lost
    if first:
        add_node_event(node.pk, "conflict", node.conflict)
        hint("master")


def _hear_current(node: Node, message: Exchange, now: datetime, *, is_new: bool) -> None:
    changes: dict[str, Any] = {
        "exchanged_at": now,
        "boot_id": message.boot_id,
        "session": message.session,
        "counter": message.counter if is_new else max(node.counter, message.counter),
        "hostname": message.hostname,
        "address": message.address,
        "clock_skew_seconds": message.sent_at - now.timestamp(),
        "usage": _newest_usage(node, message),
    }
    if is_new and node.session is not None:
        changes |= {"former_session": node.session, "former_counter": node.counter, "former_at": None}
    if message.facts is not None:
        changes["facts"] = message.facts.model_dump(mode="json")
    is_back = message.session == node.former_session
    if node.state != NodeState.CONFLICT or is_back or _is_silent_since(node.former_at, now):
        changes |= {"state": NodeState.ONLINE, "conflict": ""}
    _change(node, changes)
    Node.objects.filter(pk=node.pk).update(exchanges=F("exchanges") + 1, rev=F("rev") + 1)
    node.rev += 1


def _is_silent_since(heard_at: datetime | None, now: datetime) -> bool:
    return heard_at is None or now - heard_at > timedelta(seconds=settings.NODE_LOST_SECONDS)


def _newest_usage(node: Node, message: Exchange) -> dict[str, Any]:
    if not message.usage:
        return {**node.usage, "agent_memory_bytes": message.agent_memory_bytes}
    newest = min(message.usage, key=lambda sample: sample.age_seconds)
    return {**newest.model_dump(exclude={"age_seconds"}), "agent_memory_bytes": message.agent_memory_bytes}


def _note_devices(node: Node, reports: list[DeviceReport], *, is_first: bool) -> None:
    """Reported ones are made or changed, by their uuid; those no longer reported are kept for history.

    None at all counts only in a session's first message (the agent was started anew with no slots): later it is a
    driver that does not answer.
    """
    if not reports and not is_first:
        return
    known = {device.uuid: device for device in node.devices.all()}
    for report in sorted(reports, key=lambda report: report.index):
        _note_device(node, known.pop(report.uuid, None), report)
    gone = [device.pk for device in known.values() if device.is_present]
    if gone:
        Device.objects.filter(pk__in=gone).update(is_present=False)
        hint("master")


def _note_device(node: Node, device: Device | None, report: DeviceReport) -> None:
    fields: dict[str, Any] = {
        "index": report.index,
        "kind": report.kind[:64],
        "memory_bytes": report.memory_bytes,
        "is_healthy": report.is_healthy,
        "is_present": True,
        "trouble": report.trouble[:300],
        "usage": report.model_dump(
            include={"utilisation", "memory_used_bytes", "temperature_celsius", "power_watts"}, mode="json"
        ),
    }
    if device is None:
        Device.objects.create(node=node, uuid=report.uuid[:100], **fields)
        hint("master")
        return
    changed = {name: value for name, value in fields.items() if getattr(device, name) != value}
    if not changed:
        return
    if device.is_healthy != report.is_healthy:
        text = _("Device %(index)d is well again.") if report.is_healthy else _("Device %(index)d: %(trouble)s")
        add_node_event(node.pk, "device", text % {"index": report.index, "trouble": report.trouble})
        hint("master")
    Device.objects.filter(pk=device.pk).update(**changed)


def _state_text(old: str, node: Node) -> str:
    if node.state != NodeState.ONLINE:
        return node.conflict
    if old == NodeState.NEW:
        return _("Is online.")
    if old == NodeState.CONFLICT:
        return _("Only one agent uses its id now.")
    return _("Is back.")


def _change(node: Node, changes: dict[str, Any]) -> None:
    """By update and not by save: a heartbeat is nobody's deed and leaves no audit row."""
    Node.objects.filter(pk=node.pk).update(**changes)
    for name, value in changes.items():
        setattr(node, name, value)
