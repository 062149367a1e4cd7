"""What a training script may say to the portal, and hear from it.

Standard library only: copy this folder to any machine with Python ≥ 3.11.

    import trainyard

    data = trainyard.dataset()                     # .path, .label, .options
    start = trainyard.latest_checkpoint()          # newest good one, or None
    for step in range(start.step + 1 if start else 0, 1000):
        trainyard.report(step, loss=loss)          # a point of a curve; about a microsecond, never waits for a disk
        if trainyard.wants_checkpoint():
            with trainyard.checkpoint(step, metrics={"loss": loss}) as folder:
                torch.save(model.state_dict(), folder / "model.pt")
        if trainyard.should_stop():
            break

With several ranks all must leave the loop at the same step: `if trainyard.any_rank(trainyard.should_stop())` asks them
all (a collective: call it on every rank at the same step), and rank 0 alone saves what the ranks share.

Off the cluster the same script runs unchanged: without TRAINYARD_FOLDER everything lands in ./trainyard, nobody asks
for a stop or a checkpoint, and `dataset()` reads TRAINYARD_DATA and TRAINYARD_LABEL.

On a node the folder is the whole contract: this module appends to metrics.<rank>.jsonl, renames finished checkpoints
into checkpoints/step_<n>, and reads spec.json, control.json and inputs/. It opens no connection.
"""

from trainyard._checkpoints import Checkpoint, checkpoint, latest_checkpoint
from trainyard._control import any_rank, checkpoint_is_saved_elsewhere, complete, should_stop, wants_checkpoint
from trainyard._place import Dataset, dataset, folder, rank, spec, world_size
from trainyard._points import flush, progress, report

__all__ = [
    "Checkpoint",
    "Dataset",
    "any_rank",
    "checkpoint",
    "checkpoint_is_saved_elsewhere",
    "complete",
    "dataset",
    "flush",
    "folder",
    "latest_checkpoint",
    "progress",
    "rank",
    "report",
    "should_stop",
    "spec",
    "wants_checkpoint",
    "world_size",
]
