"""How the pages write icons, fields, states, sizes and times; one place, so that every page says them alike."""

from __future__ import annotations

import math
import time
from datetime import datetime
from typing import Any

from django import template
from django.template.context import RequestContext
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_vite.templatetags.django_vite import vite_asset_url

register = template.Library()

STATE_WORDS = {
    "queued": gettext_lazy("Queued"),
    "starting": gettext_lazy("Starting"),
    "running": gettext_lazy("Running"),
    "stopping": gettext_lazy("Stopping"),
    "succeeded": gettext_lazy("Succeeded"),
    "failed": gettext_lazy("Failed"),
    "cancelled": gettext_lazy("Cancelled"),
    "new": gettext_lazy("New"),
    "online": gettext_lazy("Online"),
    "late": gettext_lazy("Late"),
    "lost": gettext_lazy("Lost"),
    "conflict": gettext_lazy("Conflict"),
    "open": gettext_lazy("Open"),
    "cordoned": gettext_lazy("Cordoned"),
    "draining": gettext_lazy("Draining"),
    "waiting": gettext_lazy("Waiting"),
    "inspecting": gettext_lazy("Inspecting"),
    "question": gettext_lazy("Your decision"),
    "ready": gettext_lazy("Ready"),
    "refused": gettext_lazy("Refused"),
    "ordered": gettext_lazy("Ordered"),
    "accepted": gettext_lazy("Accepted"),
    "ended": gettext_lazy("Ended"),
    "stopped": gettext_lazy("Stopped"),
}
EVENT_WORDS = {
    "submitted": gettext_lazy("submitted"),
    "state": gettext_lazy("state"),
    "checkpoint": gettext_lazy("checkpoint"),
    "resume": gettext_lazy("resumed"),
    "stop": gettext_lazy("stop"),
    "warning": gettext_lazy("warning"),
    "ended": gettext_lazy("ended"),
    "node_lost": gettext_lazy("node lost"),
    "device": gettext_lazy("device"),
    "admission": gettext_lazy("admission"),
    "joined": gettext_lazy("joined"),
    "conflict": gettext_lazy("conflict"),
}
_STATE_ICONS = {
    "queued": "circle-dashed",
    "waiting": "circle-dashed",
    "starting": "hourglass",
    "inspecting": "hourglass",
    "running": "player-play",
    "stopping": "player-stop",
    "succeeded": "circle-check",
    "ready": "circle-check",
    "online": "circle-check",
    "failed": "circle-x",
    "refused": "circle-x",
    "lost": "circle-x",
    "cancelled": "ban",
    "cordoned": "ban",
    "draining": "player-pause",
    "question": "info-circle",
    "late": "alert-triangle",
    "conflict": "alert-triangle",
}


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#{}"></use></svg>',
        extra,
        vite_asset_url("src/icons.svg"),
        name,
    )


@register.simple_tag
def now_epoch() -> str:
    return f"{time.time():.1f}"


@register.simple_tag(takes_context=True)
def rail_link(context: RequestContext, route: str, key: str, icon_name: str, label: str) -> SafeString:
    path = context["request"].path
    url = reverse(route)
    is_here = path == url if key == "home" else path.startswith(url)
    return format_html(
        '<a class="rail-link" href="{}" data-key="{}" title="{}"{}>{}<span>{}</span></a>',
        url,
        key,
        label,
        SafeString(' aria-current="page"') if is_here else "",
        icon(icon_name),
        label,
    )


@register.inclusion_tag("_field.html")
def field(field: Any, unit: str = "", wide: bool = False) -> dict[str, Any]:
    return {"field": field, "unit": unit, "wide": wide}


@register.simple_tag
def state_pill(state: str) -> SafeString:
    """A state as shape, word and colour: never colour alone."""
    return format_html(
        '<span class="pill pill-{}">{}<span>{}</span></span>',
        state,
        icon(_STATE_ICONS.get(state, "circle-dashed")),
        STATE_WORDS.get(state, state),
    )


@register.filter
def state_word(state: str) -> str:
    return str(STATE_WORDS.get(state, state))


@register.filter
def event_word(kind: str) -> str:
    return str(EVENT_WORDS.get(kind, kind.replace("_", " ")))


@register.filter
def ago(when: datetime | None) -> SafeString | str:
    """A moment as a <time> that the page keeps relative; without scripts it shows the absolute time."""
    if when is None:
        return "–"
    return format_html(
        '<time datetime="{}" data-ago>{}</time>', when.isoformat(), when.strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    )


@register.filter
def gib(count: float | str | None) -> str:
    """Bytes in binary units: 1.50 GiB. A template gives '' for what is not there."""
    if count is None or count == "":
        return "–"
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    step = min(len(units) - 1, int(math.log(value, 1024))) if value >= 1 else 0
    value /= 1024**step
    digits = 0 if step == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {units[step]}"


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as 2 h 05 min."""
    if seconds is None:
        return "–"
    total = max(0, round(float(seconds)))
    if total < 60:
        return _("%(s)d s") % {"s": total}
    if total < 3600:
        return _("%(min)d min %(s)02d s") % {"min": total // 60, "s": total % 60}
    if total < 48 * 3600:
        return _("%(h)d h %(min)02d min") % {"h": total // 3600, "min": total % 3600 // 60}
    return _("%(d)d d %(h)d h") % {"d": total // 86400, "h": total % 86400 // 3600}


@register.filter
def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


@register.filter
def at(mapping: Any, key: Any) -> Any:
    """`mapping|at:key`, None when it is not there."""
    try:
        return mapping[key]
    except (KeyError, IndexError, TypeError):
        return None


@register.simple_tag(takes_context=True)
def query_with(context: RequestContext, **changes: Any) -> str:
    """The present query string with some values changed; None or '' removes one."""
    query = context["request"].GET.copy()
    for name, value in changes.items():
        query.pop(name, None)
        if value not in (None, ""):
            query[name] = str(value)
    text = query.urlencode()
    return f"?{text}" if text else "?"


@register.inclusion_tag("_quota.html", takes_context=True)
def quota_bar(context: RequestContext) -> dict[str, Any]:
    from portal.frame import quota_summary

    return {"quota": quota_summary(context["request"].user)}
