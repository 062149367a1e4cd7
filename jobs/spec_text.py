"""A job's wish as text: YAML with the numbers and words of YAML 1.2 (`1e-4` is a number, `no` is a word). Pure.

JSON is YAML, so this reads it as well. Anchors, tags and keys given twice are refused: they hide what was meant.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from jobs.spec import JobSpec

_NULL, _BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float"))


class BadText(ValueError):
    """The text is no YAML, or uses what we refuse; the message names line and column."""


class _Loader(yaml.SafeLoader):
    """Its resolvers are the core schema of YAML 1.2, section 10.3.2; everything else stays text."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ConstructorError(None, None, "anchors and aliases are not taken", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConstructorError(None, None, "a name must be a plain word", key.start_mark)
            if key.value in seen:
                raise ConstructorError(None, None, f"'{key.value}' is given twice", key.start_mark)
            seen.add(key.value)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}

    def construct_int(self, node: Any) -> int:
        return int(node.value, 0) if node.value[:2] in ("0o", "0x") else int(node.value)

    def construct_float(self, node: Any) -> float:
        sign, word = ("-", node.value[1:]) if node.value[0] == "-" else ("", node.value.lstrip("+"))
        return float(sign + (word[1:] if word[1:].lower() in ("inf", "nan") else word))


class _Dumper(yaml.SafeDumper):
    """Quotes every text that a reader of YAML 1.1 or 1.2 would take for something else."""

    yaml_implicit_resolvers = {first: list(found) for first, found in yaml.SafeDumper.yaml_implicit_resolvers.items()}


_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_RESOLVERS = [
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (_FLOAT, rf"{_NUMBER}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.0123456789")),
]
for _tag, _pattern, _first in _RESOLVERS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)


def _text(dumper: yaml.SafeDumper, value: str) -> Any:
    """Double quotes alone keep the line breaks of Unicode, which YAML folds everywhere else."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if _BREAKS.search(value) else None)


_BREAKS = re.compile("[\x85\u2028\u2029]")
_Dumper.add_representer(str, _text)
_Loader.add_constructor(_INT, _Loader.construct_int)
_Loader.add_constructor(_FLOAT, _Loader.construct_float)


def read_text(text: str) -> Any:
    """Raises BadText. Binary, dates, sets and other tags stay text or are refused: a spec has none of them."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (derived from SafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise BadText(_where(error)) from error
    except RecursionError as error:
        raise BadText("it is nested too deeply") from error


def write_text(spec: JobSpec) -> str:
    """The spec as YAML without what stands at its default; reading it again gives the same spec."""
    return _dump(shortest(spec))


def write_wish(spec: JobSpec, around: dict[str, Any]) -> str:
    """The body of a submit as YAML: the spec below `spec`, and beside it what is not part of it."""
    return _dump({**around, "spec": shortest(spec)})


def shortest(spec: JobSpec) -> dict[str, Any]:
    plain = spec.model_dump(mode="json", exclude_defaults=True)
    if "code" in plain:
        plain["code"] = {"kind": spec.code.kind, **plain["code"]}
    return plain


def _dump(plain: dict[str, Any]) -> str:
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)
