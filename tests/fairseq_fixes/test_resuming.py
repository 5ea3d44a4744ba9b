"""Going on from a checkpoint: the place in the epoch."""

import copy
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask

import diverse_mha  # noqa: F401  which mends fairseq's tasks
from diverse_mha.fairseq_fixes.resuming import note_processes, same_place


class Numbers(FairseqDataset):
    """Whose batches are the numbers in them."""

    def __getitem__(self, index):
        return index

    def __len__(self):
        return 24


def iterators(processes):
    """Those of every process; each batch is one number."""
    batches = [[number] for number in range(24)]
    kept = {"dataset": Numbers(), "collate_fn": torch.tensor, "batch_sampler": batches}
    return [EpochBatchIterator(**kept, num_shards=processes, shard_id=n) for n in range(processes)]


def saved(processes, batches, cfg=True):
    """A checkpoint, and the numbers that it has behind it."""
    read = []
    for iterator in iterators(processes):
        epoch = iterator.next_epoch_itr()
        read += [next(epoch).item() for _ in range(batches)]
    options = {"distributed_training": {"distributed_world_size": processes}}
    place = iterator.state_dict()
    return {"cfg": options if cfg else None, "extra_state": {"train_iterator": place}}, read


def rest(state, processes, update_freq):
    """The numbers that are read by as many processes as there are now."""
    training = SimpleNamespace(distributed_world_size=processes)
    cfg = SimpleNamespace(
        distributed_training=training, optimization=SimpleNamespace(update_freq=update_freq)
    )
    note_processes(state)
    read = []
    for iterator in iterators(processes):
        with same_place(cfg):
            iterator.load_state_dict(copy.deepcopy(state["extra_state"]["train_iterator"]))
        read += [batch.item() for batch in iterator.next_epoch_itr()]
    return read


@pytest.mark.parametrize(
    ("before", "batches", "now"), [(1, 16, 8), (4, 5, 2), (2, 10, 4), (2, 3, 2), (1, 3, 1)]
)
def test_another_number_of_processes_goes_on_at_the_place_in_the_data(before, batches, now):
    state, read = saved(before, batches)
    assert sorted(read + rest(state, now, [1])) == list(range(24))


def test_an_update_begins_with_all_its_batches(caplog):
    """Else, at the end of an epoch, there can be none to begin with, and fairseq fails."""
    caplog.set_level(logging.INFO)
    state, read = saved(2, 5)
    assert sorted(set(read + rest(state, 1, [7, 4]))) == list(range(24))
    assert len(rest(state, 1, [7, 4])) == 17 and len(rest(state, 1, [4, 7])) == 16
    assert caplog.messages[0] == (
        "processes: 2 in the checkpoint, now 1; each goes on after 7 batches of the epoch, not 5"
    )


def test_a_checkpoint_that_does_not_say_its_processes_is_taken_as_it_is():
    state, _ = saved(2, 5, cfg=False)
    assert len(rest(state, 1, [1])) == 24 - 5
    note_processes({"model": {}})  # nor is one without a place refused


class Sentences(Numbers):
    """Of 1 to 9 tokens, in the order of length, drawn among those of one."""

    sizes = np.random.RandomState(1).randint(1, 10, 203)

    def __len__(self):
        return len(self.sizes)

    def num_tokens_vec(self, indices):
        return self.sizes[indices]

    def ordered_indices(self):
        order = np.random.permutation(len(self))
        return order[np.argsort(self.sizes[order], kind="stable")]

    def collater(self, samples):
        return samples


#: As a checkpoint of fairseq's, or of before, has the options of its batches.
OPTIONS = {"max_tokens": "max_tokens", "max_sentences": "batch_size"}
OPTIONS["required_batch_size_multiple"] = "required_batch_size_multiple"


def begun(limits, processes=1, place=None, *, options=None, update_freq=1, rebuilt=True, epoch=2):
    """The training's batches, in every process, behind a place in an epoch."""
    task = FairseqTask(SimpleNamespace(rebuild_batches=rebuilt))
    limits = {"required_batch_size_multiple": 8, "max_sentences": None, "seed": 1} | limits
    cfg = SimpleNamespace(
        distributed_training=SimpleNamespace(distributed_world_size=processes),
        optimization=SimpleNamespace(update_freq=[update_freq]),
    )
    made = []
    for process in range(processes):
        one = task.get_batch_iterator(
            Sentences(),
            **limits,
            **{"num_shards": processes, "shard_id": process, "epoch": epoch},
            grouped_shuffling=False,
        )
        if place is not None:
            state = {"cfg": options, "extra_state": {"train_iterator": copy.deepcopy(place)}}
            note_processes(state)
            with same_place(cfg):
                one.load_state_dict(state["extra_state"]["train_iterator"])
        made.append(one)
    return made


def read(iterators, batches=None):
    """The sentences of so many batches of each process, or of all that are left, and the place."""
    found = []
    for iterator in iterators:
        epoch = iterator.next_epoch_itr()
        count = sum(1 for _ in epoch) if batches is None else batches
        epoch = iterator.epoch_batch_sampler.batches[:count]
        found += [index for batch in epoch for index in batch]
    if batches is not None:
        epoch = iterators[0]._cur_epoch_itr
        for _ in range(batches):
            next(epoch)
    return found, iterators[0].state_dict()


@pytest.mark.parametrize("batches", [2, 5])
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "changed",
    [
        {"max_tokens": 120},  # larger than before: fairseq says "dataloader mismatch"
        {"max_tokens": 30},  # smaller: fairseq reads some twice
        {"max_sentences": 4},
        {"required_batch_size_multiple": 1},
        {"seed": 7},
    ],
)
def test_an_epoch_goes_on_with_other_batches(changed, processes, batches):
    """None of its sentences twice, none missed, however often it is stopped."""
    before, options = {"max_tokens": 60}, cfg(processes)
    first, place = read(begun(before, processes), batches)
    second, place = read(begun(before | changed, 1, place, options=options), 2)
    third, place = read(begun(before | changed, 1, place, options=cfg(1)), 1)
    last, place = read(begun(before, 1, place, options=cfg(1)))
    assert sorted(first + second + third + last) == list(range(203))
    assert place == {"version": 2, "epoch": 3, "iterations_in_epoch": 0, "shuffle": True}


def cfg(processes, limits=None):
    """The options in a checkpoint."""
    dataset = {OPTIONS[name]: value for name, value in (limits or {}).items()}
    return {
        "distributed_training": {"distributed_world_size": processes},
        "dataset": dataset,
    }


def test_a_part_that_is_gone_on_with_has_the_bits_of_one_that_was_not_stopped():
    _, place = read(begun({"max_tokens": 60}), 4)
    whole, _ = read(begun({"max_tokens": 40}, 1, place, options=cfg(1)))
    start, place = read(begun({"max_tokens": 40}, 1, place, options=cfg(1)), 3)
    again, _ = read(begun({"max_tokens": 40}, 1, place, options=cfg(1)))
    assert whole == start + again


def test_a_larger_update_begins_anew():
    first, place = read(begun({"max_tokens": 60}), 3)
    rest, _ = read(begun({"max_tokens": 60}, 1, place, options=cfg(1), update_freq=2))
    assert sorted(first + rest) == list(range(203))


def test_what_a_run_of_before_left_out_is_read_once_it_goes_on():
    limits = {"max_tokens": 60, "max_sentences": None, "required_batch_size_multiple": 8}
    (old,) = begun(limits)
    old._frozen_batches = old.frozen_batches[:-1]  # as fairseq has it
    first, place = read([old], 4)
    for name in ("limits", "parts", "examples"):
        del place[name]
    rest, _ = read(begun(limits, 1, place, options=cfg(1, limits)))
    assert sorted(first + rest) == list(range(203))


def test_what_cannot_be_found_again_is_said(monkeypatch):
    limits = {"max_tokens": 60}
    for rebuilt, sizes, other, message in (
        (False, Sentences.sizes, {"max_tokens": 70}, "--max-tokens 70: .* begun with 60, .* give"),
        (
            True,
            Sentences.sizes[:200],
            limits,
            "the training data changed in the middle of an epoch; ",
        ),
    ):
        _, place = read(begun(limits, rebuilt=rebuilt), 3)
        monkeypatch.setattr(Sentences, "sizes", sizes)
        with pytest.raises(ValueError, match=message):
            begun(other, 1, place, options=cfg(1, limits), rebuilt=rebuilt)
