"""What a person wishes: one definition for form, REST, YAML and command line. Pure.

Numbers are taken in every usual form ('1e-4', 0.0001, 1E-4); unknown names are refused with the nearest known one.
`problems_of` turns pydantic's findings into sentences, each beside its field.
"""

from __future__ import annotations

import difflib
import math
import re
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

MAX_NAME = 200
MAX_SCRIPT_BYTES = 512 * 1024
# Names the portal sets itself, or that would change what the launcher does before the person's code runs.
RESERVED_ENV = re.compile(
    r"^(MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|ROLE_.*|NODE_RANK|TORCHELASTIC_.*"
    r"|GLOO_.*|NCCL_SOCKET_IFNAME|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|PATH|HOME|USER"
    r"|SHELL|PYTHONPATH|PYTHONHOME|PYTHONSTARTUP|TMPDIR|TRAINYARD_.*)\Z"
)
ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _no_nul(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _whole(value: object) -> object:
    """'1e3' and '1000.0' are whole numbers, as they are where a float is asked for."""
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[0-9]*\.?[0-9]*[eE.][-+]?[0-9]*\s*", value):
        try:
            number = float(value)
        except ValueError:
            return value
        return int(number) if math.isfinite(number) and number.is_integer() and abs(number) <= 2**53 else value
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Finite = Annotated[float, AfterValidator(_finite)]
Text = Annotated[str, AfterValidator(_no_nul)]
MetricName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_no_nul)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class Framework(StrEnum):
    PYTORCH = "pytorch"
    COMMAND = "command"  # started as it is, without a launcher


class Strategy(StrEnum):
    SINGLE = "single"
    DDP = "ddp"


class Role(_Model):
    """A kind of process: `nodes` × `devices_per_node` seats; a process per device, or one per node without devices."""

    name: Literal["worker"] = "worker"
    nodes: Whole = Field(1, ge=1, le=4096)
    devices_per_node: Whole = Field(1, ge=0, le=64)
    device_kind: str | None = Field(None, max_length=64)
    cpus_per_node: Whole = Field(0, ge=0, le=4096, description="0 leaves it to the node")
    memory_bytes_per_node: Whole = Field(0, ge=0, description="0 leaves it to the node")

    @property
    def processes_per_node(self) -> int:
        return max(1, self.devices_per_node)

    @property
    def world_size(self) -> int:
        return self.nodes * self.processes_per_node

    @property
    def device_count(self) -> int:
        return self.nodes * self.devices_per_node


class RecipeCode(_Model):
    kind: Literal["recipe"] = "recipe"
    recipe: Literal["tabular-classifier"] = "tabular-classifier"


class ScriptCode(_Model):
    """Own code: a pasted `script`, or a zip bundle (stored object `bundle_sha256`) with `entry` inside it."""

    kind: Literal["script"] = "script"
    script: Text | None = Field(None, max_length=MAX_SCRIPT_BYTES)
    bundle_sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    entry: str = Field("main.py", max_length=300)
    args: list[Annotated[Text, Field(max_length=4096)]] = Field(default_factory=list, max_length=200)

    @field_validator("entry")
    @classmethod
    def _entry_stays_inside(cls, value: str) -> str:
        path = PurePosixPath(value)
        if not value or path.is_absolute() or ".." in path.parts or "\\" in value or "\x00" in value:
            raise ValueError("must be a path inside the code, such as main.py or src/train.py")
        return value

    @model_validator(mode="after")
    def _script_or_bundle(self) -> ScriptCode:
        if bool(self.script) == bool(self.bundle_sha256):
            raise ValueError("give either a pasted script or a zip bundle")
        return self


class Optimiser(StrEnum):
    ADAMW = "adamw"
    SGD = "sgd"


class Parameters(_Model):
    """What the recipes understand. Own scripts read theirs from `args` and the environment."""

    learning_rate: Finite = Field(1e-3, gt=0, le=100)
    batch_size: Whole = Field(64, ge=1, le=1_000_000)
    batch_is: Literal["global", "per_process"] = "global"
    optimiser: Optimiser = Optimiser.ADAMW
    weight_decay: Finite = Field(0.01, ge=0, le=100)
    hidden: list[Annotated[Whole, Field(ge=1, le=65536)]] = Field(default_factory=lambda: [128, 64], max_length=32)
    validation_fraction: Finite = Field(0.2, gt=0, lt=1)
    seed: Whole = Field(0, ge=0, le=2**63 - 1)


class Target(_Model):
    metric: MetricName
    value: Finite
    mode: Literal["min", "max"] = "max"


class NoImprovement(_Model):
    metric: MetricName
    epochs: Whole = Field(ge=1, le=1_000_000)
    mode: Literal["min", "max"] = "max"


class Stop(_Model):
    """The first condition met ends the training well; `minutes` also bounds own scripts, from outside."""

    epochs: Whole | None = Field(None, ge=1, le=1_000_000)
    steps: Whole | None = Field(None, ge=1, le=10**12)
    minutes: Finite | None = Field(None, gt=0, le=60 * 24 * 365)
    target: Target | None = None
    no_improvement: NoImprovement | None = None


class CheckpointPolicy(_Model):
    every_seconds: Finite = Field(60.0, ge=1, le=86_400)
    keep: Whole = Field(3, ge=1, le=100)


class DataRef(_Model):
    version_id: Whole = Field(ge=1)
    label: str | None = Field(None, max_length=1000)


class JobSpec(_Model):
    name: Annotated[Text, Field(min_length=1, max_length=MAX_NAME)]
    framework: Framework = Framework.PYTORCH
    strategy: Strategy = Strategy.SINGLE
    roles: list[Role] = Field(default_factory=lambda: [Role()], min_length=1, max_length=1)
    code: Annotated[RecipeCode | ScriptCode, Field(discriminator="kind")] = RecipeCode()
    data: DataRef | None = None
    parameters: Parameters = Parameters()
    env: dict[str, Annotated[Text, Field(max_length=32_768)]] = Field(default_factory=dict, max_length=200)
    stop: Stop = Stop()
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    priority: Whole = Field(0, ge=-100, le=100)
    max_attempts: Whole = Field(5, ge=1, le=100)
    join_timeout_seconds: Whole = Field(120, ge=5, le=86_400)
    grace_seconds: Whole = Field(30, ge=1, le=3600)
    disk_bytes: Whole = Field(10 * 2**30, ge=2**20)

    @property
    def worker(self) -> Role:
        return self.roles[0]

    @field_validator("name")
    @classmethod
    def _name_is_not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value

    @field_validator("env")
    @classmethod
    def _environment_is_free(cls, value: dict[str, str]) -> dict[str, str]:
        bad = sorted(name for name in value if not ENV_NAME.match(name))
        if bad:
            raise ValueError(f"not a valid variable name: {', '.join(map(repr, bad))}")
        taken = sorted(name for name in value if RESERVED_ENV.match(name))
        if taken:
            raise ValueError(f"set by the portal itself, choose another name: {', '.join(taken)}")
        return value

    @model_validator(mode="after")
    def _parts_fit_together(self) -> JobSpec:
        if self.strategy is Strategy.SINGLE and self.worker.world_size != 1:
            raise ValueError(
                f"strategy: 'single' runs one process; {self.worker.nodes} × {self.worker.devices_per_node} needs 'ddp'"
            )
        if isinstance(self.code, RecipeCode):
            self._recipe_fits()
        return self

    def _recipe_fits(self) -> None:
        if self.data is None:
            raise ValueError("data: a recipe needs a dataset")
        if self.framework is not Framework.PYTORCH:
            raise ValueError("framework: this recipe runs on 'pytorch'")
        world = self.worker.world_size
        if self.parameters.batch_is == "global" and self.parameters.batch_size < world:
            raise ValueError(
                f"parameters.batch_size: {self.parameters.batch_size} samples cannot feed {world} processes;"
                f" give at least {world}"
            )
        if self.stop.epochs is None and self.stop.steps is None and self.stop.minutes is None:
            raise ValueError("stop.epochs: give epochs, steps or minutes, or the training would never end")


class Problem(BaseModel):
    """One thing wrong: a dotted `field` ('' for the whole) and a sentence.

    Where the sentence is one of `SENTENCES`, `code` is its key and `facts` fill it, so that a page can translate it.
    """

    field: str
    message: str
    code: str = ""
    facts: dict[str, str] = Field(default_factory=dict)


SENTENCES = {
    "number": "'{input}' is not a number; write it like 0.001 or 1e-3",
    "whole": "'{input}' is not a whole number",
    "least": "must be at least {limit}",
    "most": "must be at most {limit}",
    "above": "must be greater than {limit}",
    "below": "must be less than {limit}",
    "required": "must not be empty",
    "long": "is longer than {limit} characters",
    "many": "has more than {limit} entries",
    "choice": "'{input}' is none of {limit}",
    "unknown": "'{input}' is not a known setting",
    "unknown_near": "'{input}' is not a known setting; did you mean '{limit}'?",
}
# pydantic's kinds of error: our sentence, and the name of the limit in its context.
_KINDS = {
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), ("number", "")),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), ("whole", "")),
    "greater_than_equal": ("least", "ge"),
    "less_than_equal": ("most", "le"),
    "greater_than": ("above", "gt"),
    "less_than": ("below", "lt"),
    "missing": ("required", ""),
    **dict.fromkeys(("string_too_short", "too_short"), ("required", "")),
    "string_too_long": ("long", "max_length"),
    "too_long": ("many", "max_length"),
    "enum": ("choice", "expected"),
    "literal_error": ("choice", "expected"),
}


_SECTIONS: tuple[tuple[type[BaseModel], str], ...] = (
    (DataRef, "data."), (Stop, "stop."), (Parameters, "parameters."), (ScriptCode, "code."), (RecipeCode, "code."),
    (Role, "roles."), (JobSpec, ""),
)  # fmt: skip
_KNOWN = {name: section + name for model, section in _SECTIONS for name in model.model_fields}
_FIELD_PREFIX = re.compile(r"^([a-z_]+(?:\.[a-z_]+)*): (.+)$", re.DOTALL)


def problems_of(error: ValidationError) -> list[Problem]:
    """Every finding as a sentence beside its field; none of pydantic's wording about types reaches a person unasked."""
    return [_problem(item) for item in error.errors(include_url=False)]


def _problem(item: Any) -> Problem:
    path = ".".join(str(part) for part in item["loc"] if part not in ("recipe", "script") or part == item["loc"][-1])
    if item["type"] == "extra_forbidden":
        name = str(item["loc"][-1])
        near = difflib.get_close_matches(name, sorted(_KNOWN), n=1)
        meant = _KNOWN[name] if name in near else "".join(near)  # known, but in another section
        return _said(path, "unknown_near" if near else "unknown", name, meant)
    if item["type"] in _KINDS:
        code, limit = _KINDS[item["type"]]
        return _said(path, code, item["input"], item.get("ctx", {}).get(limit, ""))
    message = str(item["msg"]).removeprefix("Value error, ")
    named = _FIELD_PREFIX.match(message)
    if named and not path:
        return Problem(field=named[1], message=named[2])
    return Problem(field=path, message=message)


def _said(path: str, code: str, given: object, limit: object) -> Problem:
    shown = f"{limit:g}" if isinstance(limit, float) else str(limit).replace(" or ", ", ")
    facts = {"input": str(given)[:60], "limit": shown}
    return Problem(field=path, message=SENTENCES[code].format(**facts), code=code, facts=facts)
