"""Word alignments by every head of an encoder-decoder attention, whatever library has the model.

``aligner.py`` aligns by checkpoints of fairseq, ``hub_aligner.py`` by models of transformers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from diverse_mha.common.errors import UserError
from diverse_mha.measures.alignment import Links, consistency


class Candidate(NamedTuple):
    """A head (``2.4``, ``2.4.next``) or a layer's average (``2.average``) that aligns words."""

    layer: int  # from 1
    head: int | None  # from 1; None: the mean over the layer's heads
    shifted: bool  # True: use the step that reads the word; False: the step that predicts it

    def __str__(self) -> str:
        """Return the name, as in ``--head``."""
        return f"{self.layer}.{self.head or 'average'}{'.next' * self.shifted}"

    def describe(self) -> str:
        """Return the name in words."""
        head = f"head {self.head}" if self.head else "average of the heads"
        return f"layer {self.layer}, {head}{', next step' * self.shifted}"


class Aligned(NamedTuple):
    """The alignment of a sentence by every candidate."""

    number: int  # line, from 0
    sources: list[str]  # source words
    targets: list[str]  # target words
    choices: Tensor  # (candidates, target words): index of the source word
    known: bool  # False if word boundaries are a guess because subwords are unknown

    def links(self, row: int) -> Links:
        """Return the links of a candidate: positions of a source and a target word."""
        return {(source, word) for word, source in enumerate(self.choices[row].tolist())}


def pharaoh(links: Links) -> str:
    """Return links in Pharaoh format: ``0-0 1-2``."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


class HeadAligner:
    """Candidates that align words, and their consistency; a subclass aligns the sentences.

    Each head, and each layer's average, is a candidate twice: with the weights of the decoder step
    that predicts a target word, and with the weights of the step that reads it (Shift-Att, Chen et
    al. 2020).

    Args:
        path: the model, for messages.
        kept: numbers of each layer's heads that are not pruned.
        heads: number of heads of a layer, with pruned ones.

    Attributes:
        languages: of source and target.
    """

    languages: tuple[str, str] = ("source", "target")

    def __init__(self, path: str, kept: Sequence[Sequence[int]], heads: int):
        self.path, self.heads, self.layers = path, heads, len(kept)
        self.candidates = [
            Candidate(layer, head, shifted)
            for shifted in (False, True)
            for layer, numbers in enumerate(kept, 1)
            for head in (*numbers, *([None] if numbers else []))
        ]

    def choose(self, option: str, text: str, *, shifted: bool = True) -> int:
        """Return the row of the candidate that is called ``text``.

        Args:
            option: name of the command-line option, for messages.
            text: the name; ``auto``: the candidate with the highest consistency on valid.
            shifted: allow candidates of the next step, such as ``2.4.next``.
        """
        allowed = [row for row, one in enumerate(self.candidates) if shifted or not one.shifted]
        if text == "auto":
            values = self.consistency(self.split("valid"))
            return max(allowed, key=values.__getitem__)
        names = {str(self.candidates[row]): row for row in allowed}
        if text not in names:
            more = ", 1.average" + ", 1.1.next" * shifted
            raise UserError(
                f"{option} {text}: {self.path} has {self.layers} layers of {self.heads} "
                f"heads; give auto, or LAYER.HEAD such as 1.1{more}"
            )
        return names[text]

    def consistency(self, sentences: list[Aligned]) -> list[float]:
        """Return the consistency of every candidate, which needs no gold alignments."""
        types: dict[tuple[int, str], int] = {}

        def number(side: int, words: list[str]) -> Tensor:
            return torch.tensor([types.setdefault((side, word), len(types)) for word in words])

        filled = [sentence for sentence in sentences if sentence.targets and sentence.sources]
        if not filled:
            return [0.0] * len(self.candidates)
        targets = torch.cat([number(1, sentence.targets) for sentence in filled])
        sources = [number(0, sentence.sources)[sentence.choices] for sentence in filled]
        return [consistency(row, targets) for row in torch.cat(sources, dim=1)]

    def split(self, subset: str, max_tokens: int = 4000) -> list[Aligned]:
        """Align the sentences of a split."""
        raise NotImplementedError

    def count(self, subset: str) -> int:
        """Return the number of sentences of a split, with those that are too long."""
        raise NotImplementedError


def all_weights(layers: Sequence[Tensor]) -> Tensor:
    """Return the weights of every head, and the mean of every layer: (B, rows, T, S).

    ``layers`` are the weights (B, H, T, S) of each layer; layers without a head are left out.
    """
    rows = [w.float() for w in layers if w.size(1)]
    return torch.cat([x for w in rows for x in (w, w.mean(dim=1, keepdim=True))], dim=1).cpu()
