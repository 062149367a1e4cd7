"""What speaks against a wish, here and for this person: every refusal at once, each beside its field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from datasets.models import Version
from datasets.states import VersionState
from jobs.models import Checkpoint, CodeBundle, Job
from jobs.scheduler.room import Room
from jobs.scheduler.values import Closed, Need, NodeView
from jobs.services.snapshot import load_nodes, need_of
from jobs.spec import ENV_NAME, RESERVED_ENV, JobSpec, RecipeCode, ScriptCode
from portal.accounts.limits import limits_of
from portal.accounts.models import Membership, Team, User
from portal.errors import DomainError, Invalid, OverLimit


def problems_of_wish(
    user: User,
    spec: JobSpec,
    team: Team | None,
    *,
    resume_from: Checkpoint | None = None,
    secret_names: Sequence[str] = (),
) -> list[DomainError]:
    """Every refusal at once, each beside its dotted field."""
    return [
        *_team_problems(user, team),
        *_data_problems(user, spec),
        *_bundle_problems(user, spec),
        *_checkpoint_problems(user, resume_from),
        *_secret_problems(spec, secret_names),
        *_cluster_problems(spec),
        *_quota_problems(user, spec, team),
    ]


def _team_problems(user: User, team: Team | None) -> list[DomainError]:
    if team is None or user.is_staff or user.is_superuser:
        return []
    if Membership.objects.filter(user=user, team=team).exists():
        return []
    return [Invalid("not_a_member", _("You are not a member of this team."), field="team")]


def _data_problems(user: User, spec: JobSpec) -> list[DomainError]:
    if spec.data is None:
        return []
    version = Version.objects.visible_to(user).filter(pk=spec.data.version_id).first()
    if version is None:
        return [Invalid("not_found", _("There is no such dataset version."), field="data.version_id")]
    problem = _state_problem(version)
    if problem is not None:
        return [problem]
    return _label_problems(version, spec) if isinstance(spec.code, RecipeCode) or spec.data.label else []


def _state_problem(version: Version) -> DomainError | None:
    if version.state == VersionState.READY:
        return None
    texts = {
        VersionState.WAITING: _("The dataset version has not been inspected yet: wait a moment."),
        VersionState.INSPECTING: _("The dataset version is being inspected: wait a moment."),
        VersionState.QUESTION: _("The dataset version waits for an answer on its page before it can be used."),
        VersionState.REFUSED: _("The dataset version cannot be used; its page says why."),
    }
    return Invalid("not_ready", texts[VersionState(version.state)], field="data.version_id")


def _label_problems(version: Version, spec: JobSpec) -> list[DomainError]:
    label = (spec.data.label if spec.data else None) or version.options.get("label")
    columns = {column["name"]: column for column in version.facts.get("columns", []) if "name" in column}
    if not label:
        return [Invalid("label", _("Choose the column to be predicted."), field="data.label")]
    if label not in columns:
        shown = ", ".join(list(columns)[:20])
        told = {"label": label[:100], "columns": shown}
        return [
            Invalid("label", _("There is no column '%(label)s'. There are: %(columns)s.") % told, field="data.label")
        ]
    classes = columns[label].get("classes")
    if isinstance(spec.code, RecipeCode) and classes is not None and len(classes) < 2:
        text = _("The column '%(label)s' holds only one class: there is nothing to tell apart.") % {"label": label}
        return [Invalid("one_class", text, field="data.label")]
    return []


def _bundle_problems(user: User, spec: JobSpec) -> list[DomainError]:
    if not isinstance(spec.code, ScriptCode) or spec.code.bundle_sha256 is None:
        return []
    if find_bundle(user, spec.code.bundle_sha256) is not None:
        return []
    return [Invalid("not_found", _("There is no such code bundle: upload it first."), field="code.bundle_sha256")]


def find_bundle(user: User, sha256: str) -> CodeBundle | None:
    """Their own, or one of a job that they may see (to run it again)."""
    bundles = CodeBundle.objects.filter(stored__sha256=sha256)
    if user.is_staff or user.is_superuser:
        return bundles.first()
    seen = Job.objects.visible_to(user).filter(spec__code__bundle_sha256=sha256).exists()
    return bundles.first() if seen else bundles.filter(owner=user).first()


def _checkpoint_problems(user: User, checkpoint: Checkpoint | None) -> list[DomainError]:
    if checkpoint is None:
        return []
    if checkpoint.is_removed or not Job.objects.visible_to(user).filter(pk=checkpoint.job_id).exists():
        return [Invalid("not_found", _("There is no such checkpoint any more."), field="resume_from")]
    return []


def _secret_problems(spec: JobSpec, names: Sequence[str]) -> list[DomainError]:
    taken = sorted(name for name in names if RESERVED_ENV.match(name))
    both = sorted(name for name in names if name in spec.env)
    bad = sorted(name for name in names if not ENV_NAME.match(name))
    problems: list[DomainError] = []
    if bad:
        text = _("Not a valid variable name: %(names)s.") % {"names": ", ".join(map(repr, bad))}
        problems.append(Invalid("invalid", text, field="secrets"))
    if taken:
        text = _("Set by the portal itself, choose another name: %(names)s.") % {"names": ", ".join(taken)}
        problems.append(Invalid("reserved", text, field="secrets"))
    if both:
        text = _("Given both as a secret and in the environment: %(names)s.") % {"names": ", ".join(both)}
        problems.append(Invalid("twice", text, field="secrets"))
    return problems


# --- the cluster: nodes that do not answer at the moment still belong to it ------------------------------------------


def _cluster_problems(spec: JobSpec) -> list[DomainError]:
    nodes = [node for node in load_nodes() if node.closed is not Closed.NEW]
    need = need_of(spec.model_dump(mode="json"))
    if not nodes:
        text = _("No node has joined this cluster yet: an admin makes a join code and starts the agent on a machine.")
        return [Invalid("no_nodes", text, field="roles.0.nodes")]
    checks = (_too_many_nodes, _no_such_kind, _too_many_devices, _too_much_of_a_node)
    problems = [problem for check in checks for problem in check(need, nodes)]
    if not problems and Room(nodes, is_empty=True).fit(need) is None:
        able = len(Room(nodes, is_empty=True).able(need))
        told = {"asked": need.nodes, "devices": need.devices_per_node, "able": able}
        text = _("Asks for %(asked)d nodes with %(devices)d devices each; only %(able)d nodes have that.") % told
        problems.append(Invalid("impossible", text, field="roles.0.nodes"))
    return problems


def _too_many_nodes(need: Need, nodes: list[NodeView]) -> list[DomainError]:
    if need.nodes <= len(nodes):
        return []
    told = {"asked": need.nodes, "there": len(nodes)}
    return [
        Invalid("impossible", _("Asks for %(asked)d nodes, this cluster has %(there)d.") % told, field="roles.0.nodes")
    ]


def _no_such_kind(need: Need, nodes: list[NodeView]) -> list[DomainError]:
    kinds = sorted({device.kind for node in nodes for device in node.devices})
    if need.kind is None or need.kind in kinds or not need.devices_per_node:
        return []
    text = _("No node has a device of the kind '%(kind)s'. There are: %(kinds)s.")
    told = {"kind": need.kind, "kinds": ", ".join(kinds) or _("none")}
    return [Invalid("impossible", text % told, field="roles.0.device_kind")]


def _too_many_devices(need: Need, nodes: list[NodeView]) -> list[DomainError]:
    kinds = {device.kind for node in nodes for device in node.devices}
    if need.kind is not None and need.kind not in kinds:
        return []
    largest = Room(nodes, is_empty=True).largest(need.kind)
    if need.devices_per_node <= largest:
        return []
    told = {"asked": need.devices_per_node, "largest": largest}
    text = _("Asks for %(asked)d devices per node, the largest node has %(largest)d.") % told
    return [Invalid("impossible", text, field="roles.0.devices_per_node")]


def _too_much_of_a_node(need: Need, nodes: list[NodeView]) -> list[DomainError]:
    problems: list[DomainError] = []
    cpus, memory = max(node.cpus for node in nodes), max(node.memory_bytes for node in nodes)
    if cpus and need.cpus > cpus:
        text = _("Asks for %(asked)d CPUs per node, the largest node has %(largest)d.")
        told: dict[str, Any] = {"asked": need.cpus, "largest": cpus}
        problems.append(Invalid("impossible", text % told, field="roles.0.cpus_per_node"))
    if memory and need.memory_bytes > memory:
        text = _("Asks for %(asked).1f GiB of memory per node, the largest node has %(largest).1f GiB.")
        told = {"asked": need.memory_bytes / 2**30, "largest": memory / 2**30}
        problems.append(Invalid("impossible", text % told, field="roles.0.memory_bytes_per_node"))
    return problems


# --- ceilings that the wish alone breaks ------------------------------------------------------------------------------


def _quota_problems(user: User, spec: JobSpec, team: Team | None) -> list[DomainError]:
    problems: list[DomainError] = []
    person_limits, team_limits = limits_of(user.pk, team.pk if team else None)
    wanted = spec.worker.device_count
    for name, limits in ((_("your"), person_limits), (_("the team's"), team_limits)):
        if limits.devices is not None and wanted > limits.devices:
            told = {"wanted": wanted, "whose": name, "limit": limits.devices}
            text = _("Asks for %(wanted)d devices in all; %(whose)s quota is %(limit)d devices in use at once.") % told
            problems.append(
                OverLimit("quota", text, field="roles.0.devices_per_node", limit=limits.devices, asked=wanted)
            )
        minutes = spec.stop.minutes
        if limits.job_seconds is not None and minutes is not None and minutes * 60 > limits.job_seconds:
            told = {"asked": minutes, "whose": name, "limit": limits.job_seconds / 60}
            text = _("Asks for %(asked)g minutes; %(whose)s quota allows jobs of %(limit)g minutes.") % told
            problems.append(
                OverLimit("quota", text, field="stop.minutes", limit=limits.job_seconds, asked=minutes * 60)
            )
    return problems
