"""Checkpoints of ``--save-interval-updates``, also at the end of an epoch."""

from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator

import diverse_mha.fairseq_fixes.install  # noqa: F401
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.average import newest_checkpoints
from tests.fairseq_fixes.test_resuming import Numbers
from tests.fairseq_fixes.training import training


def save(cfg, trainer, epoch, updates, *, ends):
    """Save a checkpoint as a training does after an update."""
    epochs = mock.MagicMock(epoch=epoch, next_epoch_idx=epoch + 1)
    epochs.end_of_epoch.return_value = ends
    trainer.get_num_updates.return_value = updates
    checkpoint_utils.save_checkpoint(cfg, trainer, epochs, None)


def write(path, extra):
    with open(path, "w") as file:
        file.write("checkpoint")
    return path


ALL = [10, 20, 30]
#: Without these files, fairseq may write none at the end of an epoch.
NO_OTHER = {"no_epoch_checkpoints": True, "no_last_checkpoints": True}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"save_interval_updates": 10}, [10, 20, 30]),
        ({"save_interval_updates": 5}, [5, 10, 15, 20, 25, 30]),
        ({"save_interval_updates": 10, "keep_interval_updates": 2}, [20, 30]),
        ({"save_interval_updates": 5, "keep_interval_updates": 1}, [30]),
        ({"save_interval_updates": 10, "no_epoch_checkpoints": True}, [10, 20, 30]),
        ({"save_interval_updates": 10, **NO_OTHER}, ALL),
        ({"save_interval_updates": 5, "keep_interval_updates": 2, **NO_OTHER}, [25, 30]),
        ({"save_interval_updates": 10, "save_interval": 2, "no_last_checkpoints": True}, ALL),
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


@pytest.mark.parametrize("options", [{}, NO_OTHER], ids=["epochs", "no-other"])
def test_a_checkpoint_that_is_written_asynchronously_is_not_copied(options, tmp_path, caplog):
    """It may be incomplete."""
    options = {"save_interval_updates": 10, "write_checkpoints_asynchronously": True, **options}
    cfg, trainer = training(tmp_path, **options)
    trainer.data_parallel_rank = 0
    trainer.save_checkpoint.side_effect = lambda path, extra: path  # written later
    save(cfg, trainer, 1, 10, ends=True)
    assert not list(tmp_path.glob("*.pt"))
    assert ("checkpoint_1_10.pt: not written" in caplog.text) == trainer.save_checkpoint.called


def test_an_update_checkpoint_at_the_end_of_an_epoch_starts_the_next(tmp_path):
    cfg, trainer = training(tmp_path, save_interval_updates=10, **NO_OTHER)
    trainer.data_parallel_rank = 0
    epochs = EpochBatchIterator(Numbers(), torch.tensor, [[0], [1]])
    list(epochs.next_epoch_itr())
    trainer.get_num_updates.return_value = 10
    checkpoint_utils.save_checkpoint(cfg, trainer, epochs, None)
    ((path, extra),) = (call.args for call in trainer.save_checkpoint.call_args_list)
    assert path.endswith("checkpoint_1_10.pt")
    position = extra["train_iterator"]
    assert (position["epoch"], position["iterations_in_epoch"]) == (2, 0)
