"""The data set of sentence classification: sentences or pairs, with a label each."""

from collections.abc import Sequence

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from torch import Tensor


class SentenceDataset(FairseqDataset):
    """Examples of one or more sentences, batched as rows of one tensor.

    Row ``n * i + k`` is sentence k of example i, for n sentences an example, so that an encoder
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
        # The longest sentence of each example.
        self.sizes = np.max([np.asarray(side.sizes) for side in inputs], axis=0)  # (N,)

    def __getitem__(self, index: int) -> dict:
        """Return an example."""
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
            groups; ``nsentences`` is B. Empty without samples.
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
        """Return the tokens of an example, padding counted, for ``--max-tokens``."""
        return int(self.sizes[index]) * len(self.inputs)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Return the tokens of several examples, padding counted."""
        return self.sizes[indices] * len(self.inputs)

    def size(self, index: int) -> int:
        """Return the length of an example's longest sentence."""
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Return all examples, shortest first; those of one length at random if shuffling."""
        order = np.random.permutation(len(self)) if self.shuffle else np.arange(len(self))
        return order[np.argsort(self.sizes[order], kind="stable")]


def _numbers(samples: list[dict], name: str) -> Tensor:
    return torch.tensor([sample[name] for sample in samples])
