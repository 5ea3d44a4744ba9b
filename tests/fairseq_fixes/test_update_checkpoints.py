"""Checkpoints of ``--save-interval-updates``, also at the end of an epoch."""

from unittest import mock

import pytest
from fairseq import checkpoint_utils

import diverse_mha.fairseq_fixes.install  # noqa: F401
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.average import newest_checkpoints
from tests.fairseq_fixes.training import training


def save(cfg, trainer, epoch, updates, *, ends):
    """Save a checkpoint as a training does after an update."""
    epochs = mock.MagicMock(epoch=epoch)
    epochs.end_of_epoch.return_value = ends
    trainer.get_num_updates.return_value = updates
    checkpoint_utils.save_checkpoint(cfg, trainer, epochs, None)


def write(path, extra):
    with open(path, "w") as file:
        file.write("checkpoint")
    return path


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"save_interval_updates": 10}, [10, 20, 30]),
        ({"save_interval_updates": 5}, [5, 10, 15, 20, 25, 30]),
        ({"save_interval_updates": 10, "keep_interval_updates": 2}, [20, 30]),
        ({"save_interval_updates": 5, "keep_interval_updates": 1}, [30]),
        ({"save_interval_updates": 10, "no_epoch_checkpoints": True}, [10, 20, 30]),
        ({"save_interval_updates": -1}, []),
        ({"save_interval_updates": 20}, [20]),
    ],
)
def test_every_save_interval_has_a_checkpoint(tmp_path, options, kept):
    cfg, trainer = training(tmp_path, **options)
    trainer.data_parallel_rank = 0
    trainer.save_checkpoint.side_effect = write
    for update in range(5, 35, 5):
        save(cfg, trainer, (update + 9) // 10, update, ends=update % 10 == 0)
    updates = {int(path.stem.split("_")[2]) for path in tmp_path.glob("checkpoint_*_*.pt")}
    assert updates == set(kept)
    if len(kept) > 1:
        assert len(newest_checkpoints(tmp_path, len(kept), "update")) == len(kept)
    for count in [len(kept) + 1] if kept else []:
        with pytest.raises(UserError, match=f"give --last {len(kept)}, or train longer"):
            newest_checkpoints(tmp_path, count, "update")
