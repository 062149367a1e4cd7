"""Node tokens and join codes: 256 random bits, of which only a hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from django.utils.translation import gettext as _

from nodes.models import Node
from portal.errors import DomainError


class NotAuthenticated(DomainError):
    """No node, or not this node's token."""

    http_status = 401


def make_token() -> tuple[str, str]:
    """(the token, told once; its hash). A plain hash is enough for a secret that nobody could guess."""
    token = secrets.token_urlsafe(32)
    return token, hash_of(token)


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def node_of_header(header: str) -> Node:
    """The node that `Authorization: Node <token>` names. Raises NotAuthenticated."""
    scheme, _space, token = header.partition(" ")
    digest = hash_of(token.strip())
    node = Node.objects.filter(token_hash=digest).first() if scheme.lower() == "node" and token.strip() else None
    if node is None or not hmac.compare_digest(node.token_hash, digest):
        raise NotAuthenticated("node_token", _("This is no token of a joined node: let the agent join again."))
    return node
