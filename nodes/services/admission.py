"""What an admin lets a node do: take new work, take none (cordoned), or be emptied (draining)."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from nodes.models import Node
from nodes.services.events import add_node_event
from nodes.states import Admission
from portal.accounts.models import User
from portal.after_commit import hint, wake
from portal.audit import record
from portal.errors import Forbidden


def cordon(actor: User, node: Node) -> Node:
    """Nothing new starts there; what runs goes on."""
    return _admit(actor, node, Admission.CORDONED, _("Cordoned: takes no new jobs, running ones go on."))


def drain(actor: User, node: Node) -> Node:
    """Nothing new starts there; the master asks what runs for a checkpoint and moves it elsewhere."""
    return _admit(actor, node, Admission.DRAINING, _("Draining: takes no new jobs, running ones are moved."))


def uncordon(actor: User, node: Node) -> Node:
    return _admit(actor, node, Admission.OPEN, _("Open: takes new jobs."))


def _admit(actor: User, node: Node, admission: Admission, text: str) -> Node:
    """Doing it twice is doing it once. Raises Forbidden for whoever is not staff."""
    if not (actor.is_staff or actor.is_superuser):
        raise Forbidden("forbidden", _("Only staff may open and close nodes."))
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        if row.admission != admission:
            old, row.admission = row.admission, admission
            Node.objects.filter(pk=row.pk).update(admission=admission)
            record(actor, row, admission=(old, admission))
            add_node_event(row.pk, "admission", text, actor=actor)
            hint("master")
            wake(row.pk)
    return row
