"""How a machine becomes a node: an admin makes a one-time code, the agent joins with it and gets a token of its own."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from nodes.messages import JoinReply, JoinRequest
from nodes.models import JoinCode, Node
from nodes.services.events import add_node_event
from nodes.services.tokens import hash_of, make_token
from portal.accounts.models import User
from portal.audit import acting
from portal.errors import Conflict, Invalid

CODE_MINUTES = 60
MAX_NAME = 100


def make_join_code(actor: User | None, *, node_name: str = "", minutes: float = CODE_MINUTES) -> str:
    """The code's text, which nobody can read again. Raises Invalid, Conflict (the name is taken)."""
    name = node_name.strip()
    if len(name) > MAX_NAME or "\x00" in name:
        raise Invalid("name", _("Name the node in at most %(most)d characters.") % {"most": MAX_NAME}, field="name")
    if name and Node.objects.filter(name=name).exists():
        raise Conflict("taken", _("There is already a node '%(name)s'.") % {"name": name}, field="name")
    code = secrets.token_urlsafe(24)
    with acting(actor):
        JoinCode.objects.create(
            code_hash=hash_of(code),
            node_name=name,
            created_by=actor,
            expires_at=timezone.now() + timedelta(minutes=minutes),
        )
    return code


def join(request: JoinRequest) -> JoinReply:
    """Uses the code up. A node that joins again under its own id keeps its history and gets a new token.

    Raises Invalid when the code is wrong, used or expired; the three are not told apart. Raises Conflict when it is for
    a new node and this one is known.
    """
    token, digest = make_token()
    with transaction.atomic():
        code = _usable_code(request.code)
        node = Node.objects.select_for_update(no_key=True).filter(pk=request.node_id).first()
        if node is None:
            node = _new_node(request, code, digest)
        elif code.node_name:
            # Made for a new node: whoever holds it must not take over one whose id can be read by everybody.
            text = _("This code is for a new node, but this machine is '%(name)s' already: make one without a name.")
            raise Conflict("joined", text % {"name": node.name}, field="code")
        else:
            node.token_hash = digest
            node.save(update_fields=["token_hash"])
        JoinCode.objects.filter(pk=code.pk).update(used_at=timezone.now(), node=node)
        told = {"host": request.hostname, "address": request.address}
        add_node_event(node.pk, "joined", _("Joined from %(host)s (%(address)s).") % told, actor=code.created_by)
    return JoinReply(node_id=node.pk, name=node.name, token=token)


def _usable_code(text: str) -> JoinCode:
    code = JoinCode.objects.select_for_update().filter(code_hash=hash_of(text.strip())).first()
    if code is None or code.used_at is not None or code.expires_at <= timezone.now():
        raise Invalid(
            "join_code",
            _("This join code is wrong, used or expired. Make a new one with `manage.py join-code`."),
            field="code",
        )
    return code


def _new_node(request: JoinRequest, code: JoinCode, digest: str) -> Node:
    wanted = code.node_name or request.hostname[:MAX_NAME] or "node"
    fields = {"hostname": request.hostname, "address": request.address, "token_hash": digest}
    for name in _names(wanted, request):
        try:
            with transaction.atomic(), acting(code.created_by):
                return Node.objects.create(pk=request.node_id, name=name, **fields)
        except IntegrityError:
            continue
    raise Conflict("taken", _("There is already a node '%(name)s'.") % {"name": wanted})


def _names(wanted: str, request: JoinRequest) -> list[str]:
    """Host names may repeat: then part of the id tells them apart."""
    return [wanted, f"{wanted[: MAX_NAME - 9]}-{request.node_id.hex[:8]}"]
