"""How operations stand in the OpenAPI document: every refusal has the one shape that `portal.rest` gives it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema as BaseAutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from rest_framework import serializers


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "portal.rest_auth.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        text = "`Token <text>`, made on the account page or at /api/v1/tokens/."
        return {"type": "apiKey", "in": "header", "name": "Authorization", "description": text}


class OneErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Stable, for programs.")
    detail = serializers.CharField(help_text="A sentence for a person: what is wrong and what to do.")
    attr = serializers.CharField(allow_null=True, help_text="Dotted name of the field or query parameter, or null.")


class ErrorSerializer(serializers.Serializer[Any]):
    """Any refusal. Everything that is wrong with a body is said at once."""

    type = serializers.ChoiceField(choices=["validation_error", "client_error", "server_error"])
    errors = OneErrorSerializer(many=True)  # type: ignore[assignment] # the base has a property of this name


class AutoSchema(BaseAutoSchema):
    def get_tags(self) -> list[str]:
        """The first word after /api/v1/: jobs, datasets, nodes, ..."""
        return [self.path.removeprefix("/api/v1/").partition("/")[0]]

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status, said in self._refusals():
            bodies.setdefault(status, self._refusal(said))
        return bodies

    def _refusals(self) -> list[tuple[str, str]]:
        found = [("400", "Something in it is wrong; `errors` say what"), ("401", "No token, or a wrong one")]
        if self.method not in ("GET", "HEAD"):
            found += [("403", "The token may only read, or this is not yours to change"), ("409", "Not possible now")]
        if "{" in self.path:
            found.append(("404", "There is no such thing, or you may not see it"))
        return [*found, ("default", "Any other refusal")]

    def _refusal(self, said: str) -> dict[str, Any]:
        component: ResolvedComponent = self.resolve_serializer(ErrorSerializer, "response")
        return {"description": said, "content": {"application/json": {"schema": component.ref}}}
