"""Going on in the middle of an epoch with other batches than it was begun with.

fairseq goes on behind as many batches, whatever they hold: with larger ones it ends in a traceback
("dataloader mismatch") or leaves examples out, with smaller ones it reads some twice
(fairseq-fixed 0.12.3.1). Here the examples that were read are found again, and the others are cut
into batches anew. A checkpoint says for that how the epoch was cut, in each of its parts.
"""

import logging
import zlib

import numpy as np
from fairseq.data.iterators import EpochBatchIterator

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.replacing import in_place_of

logger = logging.getLogger(__name__)
#: What batches depend on, beside the data: in fairseq's code, and as an option.
LIMITS = {
    "max_tokens": "max_tokens",
    "max_sentences": "batch_size",
    "required_batch_size_multiple": "required_batch_size_multiple",
}
CURE = "or --reset-dataloader"


def cut_again(get, task, dataset, settings: dict) -> EpochBatchIterator:
    """Let fairseq cut a training's examples, and remember how to do so again.

    Args:
        get: ``FairseqTask.get_batch_iterator``.
        task: its object.
        dataset: the examples.
        settings: its keyword arguments.
    """

    def again(**changes) -> EpochBatchIterator:
        return get(task, dataset, **settings | changes | {"disable_iterator_cache": True})

    batches = get(task, dataset, **settings)
    batches.again = again
    batches.limits = {name: settings.get(name) for name in (*LIMITS, "seed")}
    return batches


@in_place_of(EpochBatchIterator, "state_dict")
def with_limits(state_dict, self) -> dict:
    """Write down how the epoch is cut, where it can be cut again."""
    place = state_dict(self)
    if place["iterations_in_epoch"] and callable(self.batch_sampler) and hasattr(self, "limits"):
        epoch, parts = getattr(self, "parts", (None, []))
        place["limits"] = self.limits
        place["parts"] = parts if epoch == place["epoch"] else []
        place["examples"] = _checksum(np.concatenate(self.frozen_batches))
    return place


def note_limits(place: dict, options: dict) -> None:
    """Add to the place in a loaded checkpoint of before how its epoch was cut: the last one off."""
    if "limits" not in place and options:
        place["limits"] = {name: options.get(option) for name, option in LIMITS.items()}
        place["limits"]["without_last"] = True


def same_examples(self: EpochBatchIterator, place: dict, whole: int) -> dict:
    """Let an epoch go on with the examples that are left of it.

    Args:
        self: the training's examples, cut as the options say now.
        place: in the epoch, from the checkpoint.
        whole: batches that an update takes now.

    Returns:
        The place in the batches as they are cut now.
    """
    count, saved = place.get("iterations_in_epoch", 0), place.get("limits")
    if not count or not saved or not hasattr(self, "limits"):
        return place
    differ = [n for n in LIMITS if n in saved and saved[n] != self.limits[n]]
    if not callable(self.batch_sampler):
        for name in differ:
            raise OptionError(
                f"{flag(LIMITS[name])} {self.limits[name]}: the epoch was begun with "
                f"{saved[name]}, and fairseq's tasks cannot go on with another; give that, {CURE}"
            )
        return place
    saved = self.limits | saved
    parts = [*place.get("parts", [])]
    first = parts[0]["limits"] if parts else saved
    order = self if first["seed"] == self.limits["seed"] else self.again(seed=first["seed"])
    left = np.concatenate(order.frozen_batches)
    every, shuffle = len(left), place.get("shuffle", True)
    for part in parts:
        left = _left(self, left, part, place["epoch"], shuffle)
    if place.get("examples", _checksum(left)) != _checksum(left):
        raise OptionError(
            "the training data changed in the middle of an epoch; give those that it was begun "
            f"with, {CURE}"
        )
    dropped = saved.get("without_last", False) and _odd(self.frozen_batches[-1], saved)
    differ += ["seed"] * (saved["seed"] != self.limits["seed"]) + ["without_last"] * dropped
    processes = place.get("processes") or self.num_shards
    if differ or (processes == self.num_shards and count % whole):
        parts.append({"limits": saved, "processes": processes, "batches": count})
        left = _left(self, left, parts[-1], place["epoch"], shuffle)
        place = place | {"iterations_in_epoch": 0}
        logger.info(
            "batches: cut anew; %s of %s examples of epoch %d are left",
            *(f"{len(left):,}", f"{every:,}", place["epoch"]),
        )
    if not len(left):
        self._frozen_batches = None
        return place | {"epoch": place["epoch"] + 1}
    if parts:
        self.parts = place["epoch"], parts
        self._frozen_batches = _cut(self, left, self.limits)
    return place


def _left(self, examples: np.ndarray, part: dict, epoch: int, shuffle: bool) -> np.ndarray:
    """Return the examples that were not read in a part of an epoch, in their order."""
    limits, seen = part["limits"], []
    for process in range(part["processes"]):
        known = {name: limits[name] for name in self.limits}
        one = self.again(**known, num_shards=part["processes"], shard_id=process)
        one._frozen_batches = _cut(self, examples, limits)
        seen += one.ordered_batches(epoch, False, shuffle)[: part["batches"]]
    return examples[~np.isin(examples, np.concatenate(seen))]


def _cut(self, examples: np.ndarray, limits: dict) -> tuple:
    sizes = {name: limits[name] for name in LIMITS}
    batches = self.dataset.batch_by_size(examples, **sizes)
    if limits.get("without_last") and _odd(batches[-1], limits):
        batches = batches[:-1]
    return tuple(batches)


def _odd(last, limits: dict) -> bool:
    """Whether fairseq would drop a batch, the last one."""
    multiple = limits["required_batch_size_multiple"] or 1
    return len(last) % multiple > 0


def _checksum(examples: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(examples, dtype=np.int64))
