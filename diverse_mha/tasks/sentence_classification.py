"""Task ``sentence_classification``: classifies sentences or pairs of sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from omegaconf import MISSING
from torch import Tensor

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.files import MAKE_DATA, check_data_exists
from diverse_mha.fairseq_fixes.dictionaries import plain_symbols
from diverse_mha.tasks.data_files import check_split, dictionaries_named
from diverse_mha.tasks.exact_resume import HalfPrecisionState
from diverse_mha.tasks.text import ExactResumeOptions


class SentenceDataset(FairseqDataset):
    """Examples of one or more sentences, batched as rows of one tensor.

    With n sentences in each example, row ``n * i + k`` is sentence k of example i. An encoder thus
    reads a batch of pairs in one pass.

    Args:
        inputs: n data sets of token tensors; item i of each belongs to example i.
        labels: (N,) class numbers from 0.
        padding_idx: number of the padding token.
        groups: (N,) group numbers from 0, or None.
        shuffle: order examples of the same length at random.
    """

    def __init__(
        self,
        inputs: Sequence,
        labels: np.ndarray,
        padding_idx: int,
        groups: np.ndarray | None = None,
        shuffle: bool = False,
    ):
        self.inputs = inputs
        self.labels = labels
        self.padding_idx = padding_idx
        self.groups = groups
        self.shuffle = shuffle
        # (N,) length of each example's longest sentence.
        self.sizes = np.max([np.asarray(side.sizes) for side in inputs], axis=0)

    def __getitem__(self, index: int) -> dict:
        """Return the example of number ``index``, for :meth:`collater`."""
        item = {
            "id": index,
            "sentences": [side[index] for side in self.inputs],
            "target": int(self.labels[index]),
        }
        if self.groups is not None:
            item["group"] = int(self.groups[index])
        return item

    def __len__(self) -> int:
        return len(self.labels)

    def collater(self, samples: list[dict]) -> dict:
        """Make a batch of B examples.

        Returns:
            fairseq's sample. ``net_input`` has ``src_tokens`` (n * B, S), padded on the right, and
            ``src_lengths`` (n * B,); ``target`` is (B,); ``group`` (B,) exists if the data set has
            groups; ``nsentences`` is B. If there are no samples, the dictionary is empty.
        """
        if not samples:
            return {}
        rows = [tokens for sample in samples for tokens in sample["sentences"]]
        lengths = torch.tensor([len(tokens) for tokens in rows])
        batch = {
            "id": _numbers(samples, "id"),
            "net_input": {
                "src_tokens": data_utils.collate_tokens(rows, self.padding_idx),
                "src_lengths": lengths,
            },
            "target": _numbers(samples, "target"),
            "ntokens": int(lengths.sum()),
            "nsentences": len(samples),
        }
        if self.groups is not None:
            batch["group"] = _numbers(samples, "group")
        return batch

    def num_tokens(self, index: int) -> int:
        """Return the number of tokens of an example, padding included, for ``--max-tokens``."""
        return int(self.sizes[index]) * len(self.inputs)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Return the number of tokens of several examples, padding included."""
        return self.sizes[indices] * len(self.inputs)

    def size(self, index: int) -> int:
        """Return the length of an example's longest sentence."""
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Return all indices, shortest example first; ``shuffle`` puts ties in random order."""
        order = np.random.permutation(len(self)) if self.shuffle else np.arange(len(self))
        return order[np.argsort(self.sizes[order], kind="stable")]


def _numbers(samples: list[dict], name: str) -> Tensor:
    return torch.tensor([sample[name] for sample in samples])


_IN_ORDER = ("valid", "test")  # prefixes of splits that are not shuffled


@dataclass
class SentenceClassificationConfig(ExactResumeOptions, FairseqDataclass):
    """Options of ``sentence_classification``."""

    data: str = field(
        default=MISSING,
        metadata={
            "help": "data folder with input0/, input1/ (for pairs) and label/, each with dict.txt "
            "and the binarised splits; data-prep/prepare-logic.sh and prepare-probing.sh make it"
        },
    )
    accuracy_by: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder of the data that sorts examples into groups, such as length for "
            "logical inference; validation then logs the accuracy of each group; default: none"
        },
    )


@register_task("sentence_classification", dataclass=SentenceClassificationConfig)
class SentenceClassificationTask(HalfPrecisionState, FairseqTask):
    """Classify a sentence, or a pair of sentences.

    The data layout is that of fairseq's ``sentence_prediction``. Examples are pairs if there is a
    folder ``input1``.

    Args:
        cfg: options.
        dictionary: tokens of the sentences.
        labels: names of the classes, by number.
        groups: names of the groups, by number; empty without ``accuracy_by``.
        sentences: number of sentences in an example, 1 or 2.
    """

    def __init__(self, cfg, dictionary: Dictionary, labels, groups, sentences: int):
        super().__init__(cfg)
        self.dictionary = dictionary
        self.labels = labels
        self.groups = groups
        self.sentences = sentences

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        """Check the data folder and load the dictionaries."""
        folder = Path(cfg.data)
        check_data_exists(folder)
        dictionary = _load_dictionary(folder, "input0")
        labels = plain_symbols(_load_dictionary(folder, "label"))
        if len(labels) < 2:
            raise UserError(f"{folder}/label/dict.txt: {len(labels)} classes; give 2 or more")
        pairs = (folder / "input1").is_dir()
        if pairs and _load_dictionary(folder, "input1").symbols != dictionary.symbols:
            raise UserError(
                f"{folder}: input0/dict.txt and input1/dict.txt differ; binarise both sides with "
                "one dictionary"
            )
        groups = []
        if cfg.accuracy_by is not None:
            if not (folder / cfg.accuracy_by).is_dir():
                by = Option("accuracy_by", cfg.accuracy_by)
                raise UserError(by, f": {folder} has no such folder; leave it out")
            groups = plain_symbols(_load_dictionary(folder, cfg.accuracy_by))
        return cls(cfg, dictionary, labels, groups, 2 if pairs else 1)

    def load_dataset(self, split: str, combine: bool = False, task_cfg=None, **kwargs) -> None:
        """Load a split. With ``combine``, as in training, SPLIT1, SPLIT2, ... are appended."""
        inputs = [self._load(f"input{k}", split, combine) for k in range(self.sentences)]
        labels = self._numbers("label", split, len(self.labels), combine)
        counts = {f"input{k}": len(side) for k, side in enumerate(inputs)} | {"label": len(labels)}
        groups, by = None, self.cfg.accuracy_by
        if by is not None:
            groups = self._numbers(by, split, len(self.groups), combine)
            counts[by] = len(groups)
        if len(set(counts.values())) != 1:
            sizes = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise UserError(
                f"split {split!r} in {self.cfg.data}: {sizes}; binarise files with a line for "
                "every example"
            )
        self.datasets[split] = SentenceDataset(
            inputs, labels, self.dictionary.pad(), groups, shuffle=not split.startswith(_IN_ORDER)
        )

    def _load(self, name: str, split: str, combine: bool):
        check_split(f"{self.cfg.data}/{name}", split, combine)
        dataset = data_utils.load_indexed_dataset(
            f"{self.cfg.data}/{name}/{split}", combine=combine
        )
        if dataset is None:
            raise UserError(
                f"data folder {self.cfg.data} holds no split {split!r} in {name}/; name another "
                "split, or prepare the data again"
            )
        return dataset

    def _numbers(self, name: str, split: str, count: int, combine: bool) -> np.ndarray:
        """Return the number, from 0, of each example's word in the folder ``label`` or a group."""
        special = self.dictionary.nspecial
        items = self._load(name, split, combine)
        words = [items[i].tolist() for i in range(len(items))]
        # fairseq-preprocess appends an end-of-sentence token by default.
        words = [w[:-1] if w[1:] and w[-1] == self.dictionary.eos() else w for w in words]
        numbers = np.array([w[0] - special if len(w) == 1 else -1 for w in words])
        wrong = np.flatnonzero((numbers < 0) | (numbers >= count))
        if len(wrong):
            raise UserError(
                f"{self.cfg.data}/{name}/{split}: example {wrong[0] + 1} is not one word of "
                f"{name}/dict.txt; binarise it with the dictionary of the training split"
            )
        return numbers

    @property  # fairseq's returns None, for tasks that have none
    def source_dictionary(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> Dictionary:
        """Dictionary of the sentences."""
        return self.dictionary


def _load_dictionary(folder: Path, name: str) -> Dictionary:
    path = folder / name / "dict.txt"
    if not path.is_file():
        raise UserError(
            f"data folder {folder} holds no {name}/dict.txt; {MAKE_DATA} "
            f"--only-source --destdir {folder}/{name}"
        )
    with dictionaries_named(path.parent):
        return Dictionary.load(str(path))
