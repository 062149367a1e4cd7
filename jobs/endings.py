"""How a launch ended becomes a reason and a sentence; how a gang's ends become the job's. Pure but for translation."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from jobs.states import OUTCOMES, StopReason, stronger
from nodes.messages import EndCause, ExitReport

_REASONS: dict[EndCause, StopReason] = {
    EndCause.EXITED: StopReason.SCRIPT_ERROR,
    EndCause.TIME_LIMIT: StopReason.TIME_LIMIT,
    EndCause.DISK_QUOTA: StopReason.DISK_QUOTA,
    EndCause.OUT_OF_MEMORY: StopReason.OUT_OF_MEMORY,
    EndCause.LEASE_EXPIRED: StopReason.LEASE_EXPIRED,
    EndCause.INPUT_UNAVAILABLE: StopReason.INPUT_UNAVAILABLE,
    EndCause.BAD_INPUT: StopReason.IMPOSSIBLE,
    EndCause.LAUNCH_FAILED: StopReason.LAUNCH_FAILED,
    EndCause.PEER_UNREACHABLE: StopReason.JOIN_TIMEOUT,
    EndCause.SUPERVISOR_GONE: StopReason.SUPERVISOR_GONE,
    # Without an order of ours somebody stopped it on the node, or it never came to life there.
    EndCause.STOPPED: StopReason.SUPERVISOR_GONE,
    EndCause.NEVER_STARTED: StopReason.LAUNCH_FAILED,
}
_ON_ORDER = frozenset({EndCause.STOPPED, EndCause.NEVER_STARTED})


@dataclass(frozen=True)
class Ending:
    """One placement that is over. `exit` None: its node was lost with it."""

    node: str
    exit: ExitReport | None


@dataclass(frozen=True)
class Verdict:
    reason: StopReason
    text: str


def is_success(exit_: ExitReport) -> bool:
    """The completion markers of all ranks decide over the exit code: a crash after the work was done is no failure."""
    return exit_.is_complete or (exit_.cause is EndCause.EXITED and exit_.exit_code == 0 and exit_.signal is None)


def reason_of(exit_: ExitReport) -> StopReason:
    return StopReason.COMPLETED if is_success(exit_) else _REASONS[exit_.cause]


def sentence_of(ending: Ending) -> str:
    """What happened on that node, for a person."""
    exit_ = ending.exit
    if exit_ is None:
        return _("The node %(node)s was lost.") % {"node": ending.node}
    told = {"node": ending.node, "code": exit_.exit_code, "message": exit_.message.rstrip(". ")}
    if exit_.cause is EndCause.EXITED and exit_.failed_rank is not None:
        return _rank_sentence(exit_, {**told, "rank": exit_.failed_rank})
    if exit_.message:
        return _("On %(node)s: %(message)s.") % told
    if exit_.cause is EndCause.EXITED and exit_.signal is not None:
        return _("On %(node)s the training was killed by signal %(signal)s.") % {
            **told,
            "signal": name_of(exit_.signal),
        }
    if exit_.cause is EndCause.EXITED:
        return _("On %(node)s the training ended with exit code %(code)s: its log says why.") % told
    return _cause_sentence(exit_.cause) % told


def _rank_sentence(exit_: ExitReport, told: dict[str, object]) -> str:
    if exit_.signal is not None:
        return _("On %(node)s rank %(rank)d was killed by signal %(signal)s.") % {
            **told,
            "signal": name_of(exit_.signal),
        }
    return _("On %(node)s rank %(rank)d ended with exit code %(code)s: its log says why.") % told


def name_of(number: int) -> str:
    """'9 (SIGKILL)'"""
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _cause_sentence(cause: EndCause) -> str:
    return {
        EndCause.STOPPED: _("On %(node)s it was stopped on the node itself."),
        EndCause.NEVER_STARTED: _("On %(node)s it never started."),
        EndCause.TIME_LIMIT: _("On %(node)s it reached its time limit."),
        EndCause.DISK_QUOTA: _("On %(node)s it filled its disk quota: write less, or ask for more disk."),
        EndCause.OUT_OF_MEMORY: _("On %(node)s it ran out of memory: use a smaller batch or ask for more memory."),
        EndCause.LEASE_EXPIRED: _(
            "On %(node)s it was stopped because the node could not reach the portal for too long."
        ),
        EndCause.INPUT_UNAVAILABLE: _("On %(node)s its inputs could not be fetched."),
        EndCause.BAD_INPUT: _("Its inputs cannot be used, on %(node)s or anywhere else."),
        EndCause.LAUNCH_FAILED: _("On %(node)s the launcher could not start."),
        EndCause.PEER_UNREACHABLE: _("%(node)s could not connect to another node of the job."),
        EndCause.SUPERVISOR_GONE: _("On %(node)s its supervisor vanished; how it ended is not known."),
    }[cause]


def verdict_of(endings: Sequence[Ending], asked: StopReason | None, asked_text: str = "") -> Verdict:
    """The end of a whole attempt. `asked` is why the portal was stopping it, if it was.

    All placements ended well wins over everything. Otherwise the strongest reason stands, with the sentence of whoever
    brought it; what ended because we said so adds nothing of its own. Where a machine went away, a rank's failure is
    only its echo: the others lose their connection at once, long before the machine counts as lost.
    """
    if endings and all(ending.exit is not None and is_success(ending.exit) for ending in endings):
        return Verdict(StopReason.COMPLETED, _("Every rank ended well."))
    own_reasons = [(own, ending) for ending in endings if (own := _own_reason(ending, asked)) is not None]
    if any(OUTCOMES[own].again for own, _ending in own_reasons):
        own_reasons = [(own, ending) for own, ending in own_reasons if own is not StopReason.SCRIPT_ERROR]
        asked, asked_text = (None, "") if asked is StopReason.SCRIPT_ERROR else (asked, asked_text)
    reason, text = asked, asked_text
    for own, ending in own_reasons:
        if stronger(reason, own) is not reason:
            reason, text = own, sentence_of(ending)
    return Verdict(reason or StopReason.SUPERVISOR_GONE, text)


def _own_reason(ending: Ending, asked: StopReason | None) -> StopReason | None:
    if ending.exit is None:
        return StopReason.NODE_LOST
    if is_success(ending.exit) or (asked is not None and ending.exit.cause in _ON_ORDER):
        return None
    if asked is not None and ending.exit.cause is EndCause.EXITED:
        return None  # a process that is being stopped, or has lost its peers, ends as it can
    return reason_of(ending.exit)
