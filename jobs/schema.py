"""How the pydantic models of jobs stand in the OpenAPI document: as what a client may send, defaults left out."""

from __future__ import annotations

from typing import Any

from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.plumbing import ResolvedComponent
from pydantic.json_schema import model_json_schema


class AsSent(PydanticExtension):
    """The library's own extension describes what is answered, where every field with a default is required."""

    priority = 1

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema = model_json_schema(self.target, ref_template="#/components/schemas/{model}", mode="validation")
        for name, part in schema.pop("$defs", {}).items():
            component = ResolvedComponent(name=name, type=ResolvedComponent.SCHEMA, object=name, schema=part)
            auto_schema.registry.register_on_missing(component)
        return dict(schema)
