"""Resuming a run: the position in the epoch, state of the task, causes of errors."""

import copy
import logging
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator

import diverse_mha  # noqa: F401  patches fairseq's tasks
from diverse_mha.common.errors import UserError
from diverse_mha.fairseq_fixes.checkpoints import note_processes
from diverse_mha.fairseq_fixes.resuming import resume_position
from tests.fairseq_fixes.training import training


class Numbers(FairseqDataset):
    """A data set of the numbers from 0 to 23."""

    def __getitem__(self, index):
        return index

    def __len__(self):
        return 24


def iterators(processes):
    """Return the epoch iterators of all processes; each batch is one number."""
    batches = [[number] for number in range(24)]
    kept = {"dataset": Numbers(), "collate_fn": torch.tensor, "batch_sampler": batches}
    return [EpochBatchIterator(**kept, num_shards=processes, shard_id=n) for n in range(processes)]


def saved(processes, batches, cfg=True):
    """Return a checkpoint and the numbers read before it."""
    read = []
    for iterator in iterators(processes):
        epoch = iterator.next_epoch_itr()
        read += [next(epoch).item() for _ in range(batches)]
    options = {"distributed_training": {"distributed_world_size": processes}}
    position = iterator.state_dict()
    return {"cfg": options if cfg else None, "extra_state": {"train_iterator": position}}, read


def config(processes, update_freq, **more):
    training = SimpleNamespace(distributed_world_size=processes)
    optimization = SimpleNamespace(update_freq=update_freq)
    return SimpleNamespace(distributed_training=training, optimization=optimization, **more)


def rest(state, processes, update_freq):
    """Return the numbers that the processes read after resuming."""
    note_processes(state)
    read = []
    for iterator in iterators(processes):
        with resume_position(config(processes, update_freq)):
            iterator.load_state_dict(copy.deepcopy(state["extra_state"]["train_iterator"]))
        read += [batch.item() for batch in iterator.next_epoch_itr()]
    return read


@pytest.mark.parametrize(("before", "batches", "now"), [(1, 16, 8), (4, 5, 2), (2, 10, 4)])
def test_resume_with_other_process_count_keeps_the_position(before, batches, now):
    state, read = saved(before, batches)
    assert sorted(read + rest(state, now, [1])) == list(range(24))


def test_resumed_update_starts_at_its_first_batch(caplog):
    """Otherwise, the last update of an epoch may have no batch, and fairseq fails."""
    caplog.set_level(logging.INFO)
    state, read = saved(2, 5)
    assert sorted(set(read + rest(state, 1, [7, 4]))) == list(range(24))
    assert len(rest(state, 1, [7, 4])) == 17 and len(rest(state, 1, [4, 7])) == 16
    assert len(rest(saved(1, 3)[0], 1, [2])) == 22, "training resumes after 2 batches, not 3"
    assert caplog.messages[0] == (
        "processes: 2 in the checkpoint, now 1; each continues after 7 batches of the epoch, not 5"
    )


def test_checkpoint_without_process_count_is_not_rescaled():
    state, _ = saved(2, 5, cfg=False)
    assert len(rest(state, 1, [1])) == 24 - 5
    note_processes({"model": {}})  # a checkpoint without a position is accepted


def test_other_batches_are_refused_within_an_epoch():
    state, _ = saved(2, 5)
    state["cfg"]["dataset"] = {"max_tokens": 60, "batch_size": None}
    note_processes(state)
    position = state["extra_state"]["train_iterator"]
    cure = "changed within an epoch; give --max-tokens 60, or --reset-dataloader$"
    for now, message in (
        (60, None),
        (70, f"^--max-tokens 70: {cure}"),
        (None, f"^no --max-tokens: {cure}"),
    ):
        cfg = config(2, [1], dataset=SimpleNamespace(max_tokens=now, batch_size=None))
        expected = pytest.raises(ValueError, match=message) if message else nullcontext()
        with resume_position(cfg), expected:
            iterators(2)[0].load_state_dict(copy.deepcopy(position))


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (None, "no split 'train'$"),
        ({"model": {"pruned_heads": "encoder 1.1"}}, "give --pruned-heads 'encoder 1.1'"),
        ({"model": {}}, "checkpoint_last.pt: has other pruned heads .*; leave out --pruned-heads"),
    ],
    ids=["from-scratch", "other-heads", "no-heads"],
)
def test_pruned_heads_are_blamed_only_if_a_checkpoint_was_read(
    checkpoint, message, tmp_path, monkeypatch
):
    cfg, trainer = training(tmp_path)
    trainer.cfg.get.side_effect = {"model": {"pruned_heads": "encoder.0.self:2"}}.get
    monkeypatch.setattr(
        checkpoint_utils, "load_checkpoint_to_cpu", lambda path: {"cfg": checkpoint}
    )

    def load(path, *_, **__):
        if checkpoint is not None:
            checkpoint_utils.load_checkpoint_to_cpu(path)
            raise RuntimeError("sizes differ")

    trainer.load_checkpoint.side_effect = load
    trainer.get_train_iterator.side_effect = UserError("bin: no split 'train'")
    with pytest.raises(UserError, match=message):
        checkpoint_utils.load_checkpoint(cfg, trainer)
