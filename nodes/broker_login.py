"""What a node's Celery worker may do at the broker and how it is set up; both sides share it. Pure.

A node consumes one queue, named after it. Its login reaches that list, the two sets in which Celery notes how it is
bound, and nothing else: one priority, and no message is tracked as unacknowledged (a lost wake-up costs latency, never
work). Senders push straight into the list, so nothing a node writes about bindings is ever read by the portal.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

from kombu import Exchange, Queue

LOOK_TASK = "nodes.look"
CONTROL_QUEUE = "control"
# Celery asks for these by command line only.
WORKER_FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat")

_COMMANDS = (
    "ping",
    "select",
    "client|setinfo",
    "client|setname",
    "brpop",
    "rpop",
    "rpush",
    "lpush",
    "llen",
    "multi",
    "exec",
    "sadd",
)


def node_queue(node_id: UUID | str) -> str:
    return f"node.{node_id}"


def direct_queue(name: str) -> Queue:
    return Queue(name, Exchange(name, type="direct"), routing_key=name, durable=True)


def worker_settings(queue: str) -> dict[str, Any]:
    """Celery configuration of a node's worker that consumes `queue` alone (with `-P solo` and WORKER_FLAGS)."""
    return {
        **shared_settings(),
        "task_queues": [direct_queue(queue)],
        "task_default_queue": queue,
        "task_create_missing_queues": False,
        "broker_transport_options": {"ack_emulation": False, "priority_steps": [0]},
    }


def shared_settings() -> dict[str, Any]:
    """What every Celery worker of this project has in common."""
    return {
        "accept_content": ["json"],
        "task_serializer": "json",
        "task_ignore_result": True,
        "result_backend": None,
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "task_send_sent_event": False,
        "task_time_limit": 60,
        "task_publish_retry": False,
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_pool_limit": 2,
        "enable_utc": True,
    }


def access_rules(node_id: UUID | str, secret: str) -> list[str]:
    """The arguments of `ACL SETUSER <name>` for a node: its one queue, the commands of a consumer, no channels."""
    return [
        "reset",
        "on",
        f">{secret}",
        *(f"~{prefix}{node_queue(node_id)}" for prefix in ("", "_kombu.binding.", "_kombu.binding_permanent.")),
        "-@all",
        *(f"+{command}" for command in _COMMANDS),
    ]


def login_url(broker_url: str, node_id: UUID | str, secret: str) -> str:
    """The broker's address with the node's name and secret in place of whatever login it holds."""
    parts = urlsplit(broker_url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    place = f"{host}:{parts.port or 6379}{parts.path or '/0'}"
    return f"{parts.scheme}://{node_queue(node_id)}:{quote(secret, safe='')}@{place}"
