"""Word alignments by models of transformers, between the words of the text.

Called by ``align`` for a folder of transformers. Words are what spaces separate in the text;
tokens of the model are mapped to them by their places in the line, as the tokenizer reports them.
"""

import re
import sys
from pathlib import Path
from typing import Any

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.progress import counted
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.head_aligner import Aligned, HeadAligner, all_weights
from diverse_mha.evaluation.opener import Source, open_heads
from diverse_mha.measures.alignment import best_sources

_META = "▁"  # begins a word in tokens of sentencepiece


class HubAligner(HeadAligner):
    """Aligns words by the encoder-decoder attention of a model of transformers.

    Args:
        adapter: the model with its texts, a ``hub.adapter.HubAdapter``.

    Raises:
        UserError: the model has no encoder-decoder attention.
    """

    def __init__(self, adapter: Any):
        kept = [site.numbers.kept for site in adapter.sites if site.component == "cross"]
        if not kept:
            raise UserError(
                f"{adapter.path}: has no attention to a source; give a translation model"
            )
        super().__init__(adapter.path, kept, len(kept[0]))
        self.adapter = adapter
        (text,) = adapter.texts.values()
        self.languages = str(text.source), str(text.target)  # named by their files
        self._lines: dict[str, list[list[str]]] = {}

    def _text(self, subset: str) -> list[list[str]]:
        """Return the lines of source and target."""
        if subset not in self._lines:
            files = self.adapter.texts[subset]
            self._lines[subset] = [list(read_lines(Path(file))) for file in files]
        return self._lines[subset]

    def count(self, subset: str) -> int:
        """Return the number of lines, with those that are too long or empty."""
        return len(self._text(subset)[0])

    def split(self, subset: str, max_tokens: int = 4000) -> list[Aligned]:
        """Align the sentences of the text; for ``--head auto`` too, it is the only text."""
        subset = subset if subset in self.adapter.texts else next(iter(self.adapter.texts))
        lines, sentences = self._text(subset), []
        for batch in self.adapter.batches(subset, max_tokens, label="aligning"):
            states = self.adapter.states(batch, {"cross": ("weights",)})["cross"]
            weights = all_weights([layer.weights for layer in states])
            for row, number in enumerate(batch.numbers):
                ids = batch.inputs["input_ids"][row], batch.labels[row]
                pads = batch.source_padding[row], batch.target_padding[row]
                sides = [
                    places_of(self.adapter.tokenizer, line[number], x[~pad].tolist(), target=side)
                    for side, (line, x, pad) in enumerate(zip(lines, ids, pads, strict=True))
                ]
                sentences.append(self._aligned(number, weights[row], lines, sides))
        if guessed := sum(not sentence.known for sentence in sentences):
            print(
                f"note: the tokens of {counted(guessed, 'sentence')} cannot be found in the text, "
                "so their word boundaries are guessed",
                file=sys.stderr,
            )
        return sorted(sentences, key=lambda sentence: sentence.number)

    def _aligned(self, number, weights, lines, sides) -> Aligned:
        """Return the alignment of a sentence from all weights (rows, T, S)."""
        one, two = words = [line[number].split() for line in lines]
        (sources, sure), (targets, also) = sides
        choices = torch.zeros(len(self.candidates), len(words[1]), dtype=torch.long)
        if max(sources, default=-1) >= 0 and max(targets, default=-1) >= 0:
            here = weights[:, : len(targets), : len(sources)]
            last = weights.size(1) - 1
            after = weights[:, [min(t + 1, last) for t in range(len(targets))], : len(sources)]
            # Row t predicts token t; row t + 1 reads it.
            found = best_sources(torch.cat((here, after)), sources, targets)
            choices[:, : found.size(1)] = found
        elif not all(words):
            choices = choices[:, :0]
        return Aligned(number, one, two, choices, sure and also)


def places_of(tokenizer: Any, line: str, ids: list[int], *, target: int) -> tuple[list[int], bool]:
    """Return the number of the word that each token of a line belongs to, -1 for none.

    Args:
        tokenizer: the tokenizer.
        line: the text; words are what spaces separate.
        ids: the token ids of the line, with special tokens.
        target: 1 if the line is in the target language.

    Returns:
        The places, and False if they are a guess.
    """
    words = [match.span() for match in re.finditer(r"\S+", line)]
    key = "text_target" if target else "text"
    if tokenizer.is_fast:
        made = tokenizer(**{key: line}, return_offsets_mapping=True, verbose=False)
        if made["input_ids"] == ids:
            return [_word_at(line, words, *span) for span in made["offset_mapping"]], True
    # M2M100 does not list its language codes as special tokens.
    special = {*tokenizer.all_special_ids, *tokenizer(**{key: ""})["input_ids"]}
    word, places = -1, []
    for number, token in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True):
        if number in special and number != tokenizer.unk_token_id:
            places.append(-1)
            continue
        word += token.startswith(_META) or word < 0
        places.append(word)
    sure = word + 1 == len(words)
    return [min(place, len(words) - 1) for place in places], sure


def _word_at(line: str, words: list[tuple[int, int]], start: int, end: int) -> int:
    """Return the number of the word at a token's characters; -1 for a special token."""
    at = next((i for i in range(start, end) if not line[i].isspace()), None)
    if at is None:
        return -1
    return next((n for n, (first, after) in enumerate(words) if first <= at < after), -1)


def open_hub_aligner(path: str, source: Source, *, cpu: bool) -> HubAligner:
    """Open a folder of transformers as an aligner."""
    (adapter,) = open_heads([path], source, cpu=cpu)
    return HubAligner(adapter)
