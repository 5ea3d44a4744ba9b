"""Word alignments by every head of a model's attention to the source."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy.prepared_text import preparation
from diverse_mha.evaluation.loaded import Loaded, head_states, iterate_batches, on_device
from diverse_mha.evaluation.translation import subwords_of
from diverse_mha.measures.alignment import Links, agreement, best_sources, word_places


class Aligned(NamedTuple):
    """A sentence of the split."""

    number: int  # of its line, from 0
    sources: int  # words
    choices: Tensor  # (heads and layer averages, target words): source words
    source: str  # its words
    target: str


class Aligner:
    """Aligns words by every head of a model's attention to the source.

    Heads are rows, layer by layer; ``data`` is the folder that says what its subwords are.
    """

    def __init__(self, loaded: Loaded, data: str):
        if "cross" not in loaded.model.heads:
            raise UserError(
                f"{loaded.path}: has no attention to a source; give a translation model"
            )
        self.loaded, self.heads = loaded, loaded.model.heads["cross"]
        self.layers = len(loaded.model.decoder.layers)
        made = preparation(Path(data)).post_process
        languages = loaded.task.cfg.source_lang, loaded.task.cfg.target_lang
        self._kinds = [made or subwords_of(Path(data, f"dict.{code}.txt")) for code in languages]
        self._pad = loaded.model.decoder.padding_idx

    def check(self, option: str, number: int | None, most: int) -> None:
        """Raise an error for a layer or head that the model lacks."""
        if (number or 0) > most:
            kind = option.removeprefix("--")
            raise UserError(f"{option} {number}: {self.loaded.path} has {most} {kind}s")

    def row(self, layer: int, head: int) -> int:
        """Return the row of a head; both numbers are from 1."""
        return (layer - 1) * self.heads + head - 1

    def head(self, row: int) -> tuple[int, int]:
        """Return the layer and the head of a row, from 1."""
        return row // self.heads + 1, row % self.heads + 1

    def choose(self, option: str, text: str) -> int:
        """Read ``LAYER.HEAD``; ``auto`` is the head that agrees most with the others on valid."""
        if text == "auto":
            agreed = self.agreement(self.split("valid"))
            return max(range(len(agreed)), key=agreed.__getitem__)
        numbers = re.fullmatch(r"(\d+)\.(\d+)", text)
        layer, head = map(int, numbers.groups()) if numbers else (0, 0)
        if not (1 <= layer <= self.layers and 1 <= head <= self.heads):
            raise UserError(
                f"{option} {text}: {self.loaded.path} has {self.layers} layers of {self.heads} "
                "heads; give auto, or LAYER.HEAD such as 1.1"
            )
        return self.row(layer, head)

    def agreement(self, found: list[Aligned]) -> list[float]:
        """Return how much every head agrees with the others."""
        rows = self.layers * self.heads
        return agreement(torch.cat([one.choices[:rows] for one in found], dim=1)).tolist()

    def split(
        self, subset: str, max_tokens: int = 4000, *, translate: bool = False
    ) -> list[Aligned]:
        """Align the sentences of a split, or with ``translate`` the model's translations."""
        task, model = self.loaded.task, self.loaded.model
        generator, found = None, []
        for sample in iterate_batches(self.loaded, subset, max_tokens=max_tokens, label="aligning"):
            if translate:
                generator = generator or task.build_generator([model], GenerationConfig(beam=5))
                best = task.inference_step(generator, [model], sample)
                self._force(sample, [one[0]["tokens"].long() for one in best])
            found += self._batch(sample)
        return sorted(found, key=lambda one: one.number)

    def pair(self, source: Tensor, target: Tensor) -> Aligned:
        """Align a sentence with its translation, both with the end of sentence."""
        lengths = torch.tensor([len(source)])
        sample = {"id": torch.zeros(1), "net_input": {"src_tokens": source[None].long()}}
        sample["net_input"]["src_lengths"] = lengths
        self._force(sample, [target.long()])
        (found,) = self._batch(next(on_device(self.loaded, [sample])))
        return found

    def _force(self, sample: dict, targets: list[Tensor]) -> None:
        eos = self.loaded.task.target_dictionary.eos()
        sample["target"] = data_utils.collate_tokens(targets, self._pad, eos)
        shifted = data_utils.collate_tokens(targets, self._pad, eos, move_eos_to_beginning=True)
        sample["net_input"]["prev_output_tokens"] = shifted

    def _batch(self, sample: dict) -> Iterator[Aligned]:
        states = head_states(self.loaded.model, sample, {"cross": ("weights",)})["cross"]
        weights = [layer.weights.float() for layer in states]  # (B, H, T, S) each
        every = torch.cat([*weights, *(w.mean(dim=1, keepdim=True) for w in weights)], dim=1).cpu()
        task = self.loaded.task
        dictionaries = task.source_dictionary, task.target_dictionary
        for row, number in enumerate(sample["id"].tolist()):
            tokens = sample["net_input"]["src_tokens"][row], sample["target"][row]
            places, words, texts = [], [], []
            for line, dictionary, kind in zip(tokens, dictionaries, self._kinds, strict=True):
                line = line.tolist()
                real = [at for at, x in enumerate(line) if x not in (self._pad, dictionary.eos())]
                symbols = [dictionary[line[at]] for at in real]
                places.append(real)
                words.append(word_places(symbols, kind))
                texts.append(data_utils.post_process(" ".join(symbols), kind or "none"))
            if not all(places):
                nothing = torch.zeros(every.size(1), 0, dtype=torch.long)
                yield Aligned(number, 0, nothing, "", "")
                continue
            own = every[row][:, places[1]][:, :, places[0]]
            yield Aligned(number, max(words[0]) + 1, best_sources(own, *words), *texts)


def links(sentence: Aligned, row: int) -> Links:
    """Return the links of a head, or of a layer's average."""
    return {(source, word) for word, source in enumerate(sentence.choices[row].tolist())}


def pharaoh(sentence: Aligned, row: int) -> str:
    """Write the links of a head: ``0-0 1-2``."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links(sentence, row)))
