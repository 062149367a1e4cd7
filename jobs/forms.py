"""The job form: four questions whose answers become a `JobSpec`. Every number comes as text and is read by the spec.

`JobForm.wish()` gives the dictionary that `JobSpec` checks; `FIELD_OF` leads the spec's findings back to their fields.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.spec import Optimiser, Parameters, Problem, Stop, Strategy

# The spec's dotted names and the form's fields; a longer path belongs to its longest known beginning.
FIELD_OF = {
    "name": "name",
    "strategy": "strategy",
    "framework": "framework",
    "roles": "nodes",
    "roles.0.nodes": "nodes",
    "roles.0.devices_per_node": "devices",
    "roles.0.device_kind": "device_kind",
    "roles.0.cpus_per_node": "cpus",
    "code": "code_kind",
    "code.script": "script",
    "code.bundle_sha256": "bundle",
    "code.entry": "entry",
    "code.args": "args",
    "data": "version",
    "data.version_id": "version",
    "data.label": "label",
    "stop": "epochs",
    "stop.target": "target_value",
    "stop.target.metric": "target_metric",
    "stop.no_improvement": "patience_epochs",
    "stop.no_improvement.metric": "patience_metric",
    "env": "env",
    "secrets": "secrets",
    "team": "team",
    "priority": "priority",
    "checkpoint": "checkpoint_seconds",
    "checkpoint.every_seconds": "checkpoint_seconds",
    "checkpoint.keep": "checkpoint_keep",
    "max_attempts": "max_attempts",
    "join_timeout_seconds": "join_timeout_seconds",
    "grace_seconds": "grace_seconds",
    **{f"parameters.{name}": name for name in Parameters.model_fields},
    **{f"stop.{name}": name for name in ("epochs", "steps", "minutes")},
}
_SCALARS = ("priority", "max_attempts", "join_timeout_seconds", "grace_seconds")


def _text(label: Any, *, initial: str = "", code: bool = False, **attrs: str) -> forms.CharField:
    css = "form-control code" if code else "form-control"
    widget = forms.TextInput(attrs={"class": css, "autocomplete": "off", "spellcheck": "false", **attrs})
    return forms.CharField(label=label, required=False, initial=initial, strip=True, widget=widget)


def _number(label: Any, initial: str = "", **attrs: str) -> forms.CharField:
    return _text(label, initial=initial, code=False, inputmode="decimal", **attrs)


def _area(label: Any, rows: int, placeholder: str = "", help_text: Any = "") -> forms.CharField:
    attrs = {"class": "form-control code", "rows": rows, "spellcheck": "false", "placeholder": placeholder}
    return forms.CharField(
        label=label, required=False, strip=False, help_text=help_text, widget=forms.Textarea(attrs=attrs)
    )


def _choice(label: Any, choices: list[tuple[str, Any]], initial: str = "") -> forms.CharField:
    """A CharField on purpose: what is allowed is the spec's to say, in its own sentence."""
    widget = forms.Select(attrs={"class": "form-select"}, choices=choices)
    return forms.CharField(label=label, required=False, initial=initial, widget=widget)


_MODES = [("max", gettext_lazy("grows")), ("min", gettext_lazy("shrinks"))]


class JobForm(forms.Form):
    name = _text(gettext_lazy("Name"), maxlength="200")
    team = _choice(gettext_lazy("For the team"), [("", gettext_lazy("nobody but me"))])

    code_kind = forms.CharField(
        required=False,
        initial="recipe",
        widget=forms.RadioSelect(
            choices=[
                ("recipe", gettext_lazy("Built-in recipe")),
                ("script", gettext_lazy("Own script")),
                ("zip", gettext_lazy("Zip of own code")),
            ]
        ),
    )
    recipe = _choice(gettext_lazy("Recipe"), [("tabular-classifier", gettext_lazy("Table classifier"))])
    framework = _choice(
        gettext_lazy("Started by"),
        [("pytorch", gettext_lazy("PyTorch (torchrun)")), ("command", gettext_lazy("nothing: run it as it is"))],
        "pytorch",
    )
    script = _area(gettext_lazy("Script"), 16, "import trainyard\n…")
    bundle = _choice(gettext_lazy("Zip file"), [("", gettext_lazy("choose or upload one"))])
    entry = _text(gettext_lazy("File to run"), initial="main.py", code=True)
    args = _text(gettext_lazy("Arguments"), code=True, placeholder="--width 128")

    version = _choice(gettext_lazy("Dataset"), [("", gettext_lazy("none"))])
    label = _text(gettext_lazy("Label column"), list="label-columns")

    strategy = _choice(
        gettext_lazy("Strategy"),
        [
            (Strategy.SINGLE.value, gettext_lazy("single – one process")),
            (Strategy.DDP.value, gettext_lazy("ddp – data parallel")),
        ],
        "single",
    )
    nodes = _number(gettext_lazy("Nodes"), "1")
    devices = _number(gettext_lazy("Devices per node"), "1")
    device_kind = _choice(gettext_lazy("Kind of device"), [("", gettext_lazy("any"))])
    cpus = _number(gettext_lazy("CPUs per node"), "", placeholder="0")

    batch_size = _number(gettext_lazy("Batch size"), "64")
    batch_is = _choice(
        gettext_lazy("Batch is counted"),
        [("global", gettext_lazy("over all processes")), ("per_process", gettext_lazy("per process"))],
        "global",
    )
    learning_rate = _number(gettext_lazy("Learning rate"), "1e-3")
    optimiser = _choice(
        gettext_lazy("Optimiser"), [(item.value, item.value) for item in Optimiser], Optimiser.ADAMW.value
    )
    weight_decay = _number(gettext_lazy("Weight decay"), "0.01")
    hidden = _text(gettext_lazy("Hidden layers"), initial="128, 64")
    validation_fraction = _number(gettext_lazy("Share kept for validation"), "0.2")
    seed = _number(gettext_lazy("Seed"), "0")

    epochs = _number(gettext_lazy("Epochs"), "20")
    steps = _number(gettext_lazy("Steps"))
    minutes = _number(gettext_lazy("Minutes"))
    target_metric = _text(gettext_lazy("When this metric"), placeholder="val_accuracy")
    target_mode = _choice(gettext_lazy("grows or shrinks"), list(_MODES), "max")
    target_value = _number(gettext_lazy("reaches"))
    patience_metric = _text(gettext_lazy("When this metric"), placeholder="val_loss")
    patience_mode = _choice(gettext_lazy("no longer"), list(_MODES), "min")
    patience_epochs = _number(gettext_lazy("for so many epochs"))

    env = _area(gettext_lazy("Environment"), 3, "NAME=value", gettext_lazy("One per line."))
    secrets = _area(
        gettext_lazy("Secrets"),
        2,
        "NAME=value",
        gettext_lazy("Like the environment, but never shown again and masked in every log."),
    )
    priority = _number(gettext_lazy("Priority"), "0")
    checkpoint_seconds = _number(gettext_lazy("Checkpoint every"), "60")
    checkpoint_keep = _number(gettext_lazy("Keep the newest"), "3")
    max_attempts = _number(gettext_lazy("Attempts at most"), "5")
    join_timeout_seconds = _number(gettext_lazy("Nodes must be there within"), "120")
    grace_seconds = _number(gettext_lazy("Time to stop"), "30")

    idempotency_key = forms.CharField(required=False, widget=forms.HiddenInput)
    origin = forms.CharField(required=False, widget=forms.HiddenInput)
    resume_from = forms.CharField(required=False, widget=forms.HiddenInput)

    def offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        """More choices for a select; what was chosen before stays choosable, so that nothing changes silently."""
        widget: Any = self.fields[name].widget
        widget.choices = [*widget.choices, *choices]
        chosen = str(self[name].value() or "")
        if chosen and chosen not in {str(value) for value, _label in widget.choices}:
            widget.choices = [*widget.choices, (chosen, chosen)]

    def wish(self) -> tuple[dict[str, Any], list[Problem]]:
        """What `JobSpec` is to check, and what could not even be read."""
        given = {name: value for name, value in self.cleaned_data.items() if value != ""}
        problems: list[Problem] = []
        wish: dict[str, Any] = {
            "name": given.get("name", ""),
            "strategy": given.get("strategy", Strategy.SINGLE.value),
            "roles": [
                _picked(
                    given, nodes="nodes", devices="devices_per_node", device_kind="device_kind", cpus="cpus_per_node"
                )
            ],
            "code": _code(given, problems),
            "stop": _stop(given),
            "checkpoint": _picked(given, checkpoint_seconds="every_seconds", checkpoint_keep="keep"),
            "env": _assignments(given.get("env", ""), "env", problems),
            **_picked(given, *_SCALARS),
        }
        if given.get("version"):
            wish["data"] = {"version_id": given["version"], **_picked(given, "label")}
        if wish["code"]["kind"] == "recipe":
            wish["parameters"] = _parameters(given)
        else:
            wish |= _picked(given, "framework")
        return wish, problems

    def secret_values(self) -> tuple[dict[str, str], list[Problem]]:
        problems: list[Problem] = []
        return _assignments(self.cleaned_data["secrets"], "secrets", problems), problems


def field_of(path: str) -> str:
    """The form's field for a path in the spec; '' for the whole."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        known = FIELD_OF.get(".".join(parts[:length]))
        if known:
            return known
    return path if path in JobForm.base_fields else ""


def initial_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The form filled with an old spec; secrets are never in it."""
    role, code = (spec.get("roles") or [{}])[0], spec.get("code", {})
    data, stop, checkpoint = spec.get("data") or {}, spec.get("stop", {}), spec.get("checkpoint", {})
    target, patience = stop.get("target") or {}, stop.get("no_improvement") or {}
    kind = "recipe" if code.get("kind") != "script" else ("zip" if code.get("bundle_sha256") else "script")
    values: dict[str, Any] = {
        **_kept(spec, "name", "strategy", "framework", *_SCALARS),
        **spec.get("parameters", {}),
        **{name: stop.get(name) for name in Stop.model_fields if name in ("epochs", "steps", "minutes")},
        "hidden": ", ".join(map(str, spec.get("parameters", {}).get("hidden", []))),
        "code_kind": kind,
        "script": code.get("script"),
        "bundle": code.get("bundle_sha256"),
        "entry": code.get("entry", "main.py"),
        "args": shlex.join(code.get("args", [])),
        "version": data.get("version_id"),
        "label": data.get("label"),
        "nodes": role.get("nodes", 1),
        "devices": role.get("devices_per_node", 1),
        "device_kind": role.get("device_kind"),
        "cpus": role.get("cpus_per_node") or "",
        "target_metric": target.get("metric"),
        "target_value": target.get("value"),
        "target_mode": target.get("mode", "max"),
        "patience_metric": patience.get("metric"),
        "patience_epochs": patience.get("epochs"),
        "patience_mode": patience.get("mode", "min"),
        "env": "\n".join(f"{name}={value}" for name, value in spec.get("env", {}).items()),
        "checkpoint_seconds": checkpoint.get("every_seconds"),
        "checkpoint_keep": checkpoint.get("keep"),
    }
    return {name: _shown(value) for name, value in values.items() if value is not None}


def _shown(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else value


def _kept(spec: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: spec[name] for name in names if name in spec}


def _picked(given: Mapping[str, Any], *same: str, **renamed: str) -> dict[str, Any]:
    names = {**{name: name for name in same}, **renamed}
    return {new: given[old] for old, new in names.items() if old in given}


def _code(given: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    kind = given.get("code_kind", "recipe")
    if kind == "recipe":
        return {"kind": "recipe", **_picked(given, "recipe")}
    code: dict[str, Any] = {"kind": "script", **_picked(given, "entry")}
    try:
        code["args"] = shlex.split(given.get("args", ""))
    except ValueError:
        problems.append(Problem(field="code.args", message=_("A quotation mark is opened and never closed.")))
    source = "bundle" if kind == "zip" else "script"
    if not str(given.get(source, "")).strip():
        text = _("Choose or upload a zip file.") if kind == "zip" else _("Paste the script to run.")
        problems.append(Problem(field=source, message=text))
        code["script"] = "#"  # so that the other findings are about what was filled in
    else:
        code["bundle_sha256" if kind == "zip" else "script"] = given[source].replace("\r\n", "\n")
    return code


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    found = _picked(given, *(name for name in Parameters.model_fields if name != "hidden"))
    if "hidden" in given:
        found["hidden"] = [part.strip() for part in given["hidden"].replace(";", ",").split(",") if part.strip()]
    return found


def _stop(given: Mapping[str, Any]) -> dict[str, Any]:
    stop = _picked(given, "epochs", "steps", "minutes")
    if "target_metric" in given or "target_value" in given:
        stop["target"] = _picked(given, target_metric="metric", target_value="value", target_mode="mode")
    if "patience_metric" in given or "patience_epochs" in given:
        stop["no_improvement"] = _picked(
            given, patience_metric="metric", patience_epochs="epochs", patience_mode="mode"
        )
    return stop


def _assignments(text: str, field: str, problems: list[Problem]) -> dict[str, str]:
    """NAME=value lines; empty lines and lines that begin with # are skipped."""
    found: dict[str, str] = {}
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        line = raw.lstrip()
        if not line or line.startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign:
            message = _("Line %(line)d has no '='. Write NAME=value.") % {"line": number}
            problems.append(Problem(field=field, message=message))
        elif name.strip() in found:
            message = _("'%(name)s' is given twice.") % {"name": name.strip()}
            problems.append(Problem(field=field, message=message))
        else:
            found[name.strip()] = value
    return found
