"""What a recipe is asked to do: spec.json as typed values, refused early with a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from datasets.formats.options import TableOptions
from jobs.spec import JobSpec, problems_of

TARGETS = ("loss", "accuracy", "val_loss", "val_accuracy")


class Refused(Exception):
    """The training cannot be done as asked; the text tells a person why and what to change."""


@dataclass(frozen=True)
class Recipe:
    spec: JobSpec
    options: TableOptions
    label: str | None
    types: dict[str, str] | None = field(default=None)  # column → type, when the portal knows them


def load_recipe(given: dict[str, Any]) -> Recipe:
    """From the content of spec.json: the job's spec and, under `dataset`, how the table was read and what was found."""
    try:
        spec = JobSpec.model_validate({name: given[name] for name in JobSpec.model_fields if name in given})
    except ValidationError as error:
        raise Refused("; ".join(f"{p.field}: {p.message}" for p in problems_of(error))) from None
    _check_metrics(spec)
    dataset = given.get("dataset") or {}
    facts = dataset.get("facts") or {}
    options = TableOptions.model_validate(facts.get("read_as") or dataset.get("options") or {})
    label = (spec.data.label if spec.data else None) or dataset.get("label") or options.label
    types = {column["name"]: column["type"] for column in facts.get("columns") or []}
    return Recipe(spec, options, label, types or None)


def _check_metrics(spec: JobSpec) -> None:
    wanted = {
        "stop.target.metric": spec.stop.target and spec.stop.target.metric,
        "stop.no_improvement.metric": spec.stop.no_improvement and spec.stop.no_improvement.metric,
    }
    for name, metric in wanted.items():
        if metric and metric not in TARGETS:
            raise Refused(f"{name}: this recipe has no metric '{metric}'. Choose one of {', '.join(TARGETS)}.")
