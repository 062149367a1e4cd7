"""What is wrong with a wish, in the viewer's language and as a sentence of its own beside its field."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from jobs.spec import Problem

# The same sentences as `jobs.spec.SENTENCES`, which is pure and speaks English.
_SENTENCES: dict[str, Any] = {
    "number": _("“%(input)s” is not a number; write it like 0.001 or 1e-3."),
    "whole": _("“%(input)s” is not a whole number."),
    "least": _("Must be at least %(limit)s."),
    "most": _("Must be at most %(limit)s."),
    "above": _("Must be greater than %(limit)s."),
    "below": _("Must be less than %(limit)s."),
    "required": _("Must not be empty."),
    "long": _("Is longer than %(limit)s characters."),
    "many": _("Has more than %(limit)s entries."),
    "choice": _("“%(input)s” is none of %(limit)s."),
    "unknown": _("“%(input)s” is not a known setting."),
    "unknown_near": _("“%(input)s” is not a known setting; did you mean “%(limit)s”?"),
}


def sentence_of(problem: Problem) -> str:
    if problem.code in _SENTENCES:
        return str(_SENTENCES[problem.code] % problem.facts)
    text = problem.message[:1].upper() + problem.message[1:]
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."
