"""Bodies of the jobs API: JSON, or YAML with the numbers of YAML 1.2. Both bounded, both refused with the place."""

from __future__ import annotations

import json
from typing import Any

from django.utils.translation import gettext as _
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser

from jobs.spec_text import BadText, read_text

MAX_BODY_BYTES = 4 * 1024 * 1024


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"


class JsonParser(BaseParser):
    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return json.loads(_text(stream), parse_constant=_refuse_constant, object_pairs_hook=_once)
        except RecursionError:
            raise ParseError(_("The JSON is nested too deeply.")) from None
        except ValueError as error:
            raise ParseError(_("This is not JSON: %(why)s") % {"why": error}) from None


class YamlParser(BaseParser):
    media_type = "application/yaml"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return read_text(_text(stream))
        except BadText as error:
            raise ParseError(_("This is not YAML as jobs take it: %(why)s") % {"why": error}) from None


def _text(stream: Any) -> str:
    body = stream.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise TooLarge(_("A job's description has at most %(most)d bytes.") % {"most": MAX_BODY_BYTES})
    try:
        return str(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ParseError(_("The text is not UTF-8.")) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number here")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"'{name}' is given twice")
        found[name] = value
    return found
