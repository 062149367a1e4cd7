"""What staff do to a node on its page. The page itself puts several apps together and is in `portal.views`."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from nodes.models import Node
from nodes.services.admission import cordon, drain, uncordon
from nodes.states import Admission
from portal.accounts.http import SignedInRequest
from portal.errors import Invalid, NotFound

_DEEDS = {Admission.OPEN: uncordon, Admission.CORDONED: cordon, Admission.DRAINING: drain}


@login_required
@require_POST
def admission(request: SignedInRequest, pk: UUID) -> HttpResponse:
    """Cordon, drain, or open again; the service refuses whoever is not staff."""
    node = Node.objects.filter(pk=pk).first()
    if node is None:
        raise NotFound("not_found", _("There is no such node."))
    wanted = request.POST.get("admission", "")
    if wanted not in list(Admission):
        raise Invalid("invalid_choice", _("A node is open, cordoned or draining."), field="admission")
    _DEEDS[Admission(wanted)](request.user, node)
    messages.success(request, _("“%(name)s” is changed.") % {"name": node.name})
    return redirect("node", pk=pk)
