"""Word alignments by every head of a model's encoder-decoder attention."""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq.data import Dictionary
from torch import Tensor

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.prepared import preparation, subwords_of
from diverse_mha.corpora.subwords import restore
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.head_aligner import Aligned, HeadAligner, all_weights
from diverse_mha.evaluation.models import Loaded, translation_batch
from diverse_mha.measures.alignment import best_sources, merge_subwords, word_places

#: Subwords of source and target; None without the segmented text.
Subwords = tuple[list[str] | None, list[str] | None]


class Aligner(HeadAligner):
    """Aligns words by the encoder-decoder attention of a checkpoint.

    Args:
        loaded: the model.
        data: the data folder, which determines the subwords.
    """

    def __init__(self, loaded: Loaded, data: str):
        if "cross" not in loaded.model.heads:
            raise UserError(
                f"{loaded.path}: has no attention to a source; give a translation model"
            )
        model = loaded.model
        super().__init__(loaded.path, model.kept_heads["cross"], model.heads["cross"])
        self.loaded = loaded
        made = preparation(Path(data)).post_process
        self._data = Path(data).absolute()
        self.languages = loaded.task.cfg.source_lang, loaded.task.cfg.target_lang
        dictionaries = [Path(data, f"dict.{code}.txt") for code in self.languages]
        self._kinds = [made or subwords_of(path) for path in dictionaries]

    def split(self, subset: str, max_tokens: int = 4000) -> list[Aligned]:
        """Align the sentences of a split."""
        sentences, texts = [], []
        for sample in self.loaded.batches(subset, max_tokens, label="aligning"):
            # Read the texts inside the loop, because batches() loads the split for _text.
            texts = texts or [self._text(subset, language) for language in self.languages]
            source, target = texts
            subwords = [
                (None if source is None else source[n], None if target is None else target[n])
                for n in sample["id"].tolist()
            ]
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

    def count(self, subset: str) -> int:
        """Return the number of sentences of a split, with those that are too long."""
        return len(self.loaded.task.dataset(subset))

    def _text(self, subset: str, language: str) -> list[list[str]] | None:
        """Return each sentence's subwords, from data-prep's folder ``bpe/``.

        Return None if the file is missing or its number of lines is not that of the split.
        """
        path = self._data.parent / "bpe" / f"{subset}.{language}"
        lines = [line.split() for line in read_lines(path)] if path.is_file() else []
        return lines if len(lines) == len(self.loaded.task.dataset(subset)) else None

    def pair(self, subwords: list[str], target: Tensor) -> Aligned:
        """Align a source sentence to its translation, which is token ids that end with eos."""
        (source,), _ = self.loaded.task.get_interactive_tokens_and_lengths([subwords], " ".join)
        sample = translation_batch(self.loaded.task, [source], [target.long()])
        sample["id"] = torch.zeros(1)
        (alignment,) = self._batch(self.loaded.on_device(sample), [(subwords, None)])
        return alignment

    def _batch(self, sample: dict, subwords: list[Subwords]) -> Iterator[Aligned]:
        states = self.loaded.states(sample, {"cross": ("weights",)})["cross"]
        weights = all_weights([layer.required("weights") for layer in states])
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
            source, target = words
            yield Aligned(number, source, target, choices, known)


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
