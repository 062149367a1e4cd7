"""The Content-Security-Policy of our own pages, and the looser one that the admin's skin needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from csp.constants import NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from csp.middleware import CSPMiddleware, PolicyParts

if TYPE_CHECKING:  # settings import this module
    from django.http import HttpRequest, HttpResponseBase

STRICT: dict[str, Any] = {
    "default-src": [SELF],
    "script-src": [SELF],
    "style-src": [SELF],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "object-src": [NONE],
    "base-uri": [NONE],
    "form-action": [SELF],
    "frame-ancestors": [NONE],
}
# Unfold runs Alpine.js, which evaluates attributes, and puts style elements into its pages.
ADMIN = {**STRICT, "script-src": [SELF, UNSAFE_INLINE, UNSAFE_EVAL], "style-src": [SELF, UNSAFE_INLINE]}
ADMIN_PREFIX = "/admin/"


class PolicyMiddleware(CSPMiddleware):
    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if request.path_info.startswith(ADMIN_PREFIX) and not report_only and parts.replace is None:
            parts.replace = ADMIN
        return parts
