"""Word alignments by every head of a model's encoder-decoder attention."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.prepared import preparation, subwords_of
from diverse_mha.corpora.subwords import restore
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.models import Loaded, translation_batch
from diverse_mha.measures.alignment import (
    Links,
    best_sources,
    consistency,
    merge_subwords,
    word_places,
)


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


#: Subwords of source and target; None without the segmented text.
Subwords = tuple[list[str] | None, list[str] | None]


class Aligner:
    """Aligns words by every head, and every layer's average, of the encoder-decoder attention.

    Each head and each average is a candidate twice: with the weights of the decoder step that
    predicts a target word, and with the weights of the step that reads it (Shift-Att, Chen et al.
    2020).

    Args:
        loaded: the model.
        data: the data folder, which determines the subwords.
    """

    def __init__(self, loaded: Loaded, data: str):
        if "cross" not in loaded.model.heads:
            raise UserError(
                f"{loaded.path}: has no attention to a source; give a translation model"
            )
        self.loaded, self.heads = loaded, loaded.model.heads["cross"]
        kept = loaded.model.kept_heads["cross"]  # numbers of each layer's unpruned heads
        self.layers = len(kept)
        self.candidates = [
            Candidate(layer, head, shifted)
            for shifted in (False, True)
            for layer, heads in enumerate(kept, 1)
            for head in (*heads, *([None] if heads else []))
        ]
        made = preparation(Path(data)).post_process
        self._data = Path(data).absolute()
        self.languages = loaded.task.cfg.source_lang, loaded.task.cfg.target_lang
        dictionaries = [Path(data, f"dict.{code}.txt") for code in self.languages]
        self._kinds = [made or subwords_of(path) for path in dictionaries]

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
                f"{option} {text}: {self.loaded.path} has {self.layers} layers of {self.heads} "
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
        sentences, texts = [], None
        for sample in self.loaded.batches(subset, max_tokens, label="aligning"):
            # Read the texts inside the loop, because batches() loads the split for _text.
            texts = texts or [self._text(subset, language) for language in self.languages]
            subwords = [tuple(text and text[n] for text in texts) for n in sample["id"].tolist()]
            sentences += self._batch(sample, subwords)
        if guessed := sum(not sentence.known for sentence in sentences):
            missing = self._data.parent / "bpe" / f"{subset}.{self.languages[0]}"
            print(
                f"note: {guessed:,} sentences of {subset} have unknown subwords, so their word "
                f"boundaries are guessed: {missing} is missing or has another text",
                file=sys.stderr,
            )
        if 2 * sum(1 in (len(s.sources), len(s.targets)) for s in sentences) > len(sentences):
            print(
                f"note: most sentences of {subset} have no spaces and count as one word; to align "
                "words, separate them by spaces before you prepare the text",
                file=sys.stderr,
            )
        return sorted(sentences, key=lambda sentence: sentence.number)

    def _text(self, subset: str, language: str) -> list[list[str]] | None:
        """Return each sentence's subwords, from data-prep's folder ``bpe/``.

        Return None if the file is missing or its number of lines is not that of the split.
        """
        path = self._data.parent / "bpe" / f"{subset}.{language}"
        lines = [line.split() for line in read_lines(path)] if path.is_file() else []
        return lines if len(lines) == len(self.loaded.task.dataset(subset)) else None

    def pair(self, source: Tensor, target: Tensor, subwords: list[str]) -> Aligned:
        """Align a source sentence, which has ``subwords``, to its translation.

        Both sentences are token ids that end with eos.
        """
        sample = translation_batch(self.loaded.task, [source.long()], [target.long()])
        sample["id"] = torch.zeros(1)
        (alignment,) = self._batch(self.loaded.on_device(sample), [(subwords, None)])
        return alignment

    def _batch(self, sample: dict, subwords: list[Subwords]) -> Iterator[Aligned]:
        states = self.loaded.states(sample, {"cross": ("weights",)})["cross"]
        by_layer = [layer.weights.float() for layer in states]  # (B, H, T, S) each
        by_layer = [w for w in by_layer if w.size(1)]  # skip layers whose heads are all pruned
        weights = torch.cat(
            [rows for w in by_layer for rows in (w, w.mean(dim=1, keepdim=True))], dim=1
        ).cpu()
        task = self.loaded.task
        dictionaries = task.source_dictionary, task.target_dictionary
        for row, number in enumerate(sample["id"].tolist()):
            tokens = sample["net_input"]["src_tokens"][row], sample["target"][row]
            positions, places, words, known = [], [], [], True
            for line, dictionary, kind, line_subwords in zip(
                tokens, dictionaries, self._kinds, subwords[row], strict=True
            ):
                at, symbols, sure = _tokens(line.tolist(), dictionary, line_subwords)
                known &= sure or not kind
                positions.append(at)
                places.append(word_places(symbols, kind))
                merged = merge_subwords(symbols, places[-1], kind)
                words.append([*map(restore, merged)])
            choices = torch.zeros(len(self.candidates), 0, dtype=torch.long)
            if all(words):
                here = weights[row][:, :, positions[0].start : positions[0].stop]
                # Row t predicts token t; row t + 1 reads it.
                last = here.size(1) - 1
                steps = [here[:, [min(t + shift, last) for t in positions[1]]] for shift in (0, 1)]
                choices = best_sources(torch.cat(steps), *places)
            yield Aligned(number, *words, choices, known)


def _tokens(
    line: list[int], dictionary: Dictionary, subwords: list[str] | None
) -> tuple[range, list[str], bool]:
    """Find a sentence in a padded row. The sentence may contain ``</s>``, ``<pad>``, ``<unk>``.

    Returns:
        The positions of its tokens, their subwords, and False if the subwords are a guess.
    """
    used = [at for at, token in enumerate(line) if token != dictionary.pad()] or [0]
    end = used[-1] + (line[used[-1]] != dictionary.eos())
    if subwords is not None:
        at = range(max(end - len(subwords), 0), end)
        if [dictionary.index(symbol) for symbol in subwords] == line[at.start : at.stop]:
            return at, subwords, True
    at = range(used[0], end)
    return at, [dictionary[line[n]] for n in at], dictionary.unk() not in line
