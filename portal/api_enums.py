"""Names of the closed lists in the OpenAPI document; without them the generator numbers them."""

from __future__ import annotations

from enum import StrEnum

from datasets.states import UploadState, VersionState
from jobs.states import AttemptState, JobState, PlacementState, StopReason
from nodes.states import Admission, NodeState


def _values(kind: type[StrEnum]) -> list[str]:
    return [item.value for item in kind]


JOB_STATE = _values(JobState)
ATTEMPT_STATE = _values(AttemptState)
PLACEMENT_STATE = _values(PlacementState)
STOP_REASON = _values(StopReason)
NODE_STATE = _values(NodeState)
ADMISSION = _values(Admission)
VERSION_STATE = _values(VersionState)
UPLOAD_STATE = _values(UploadState)
