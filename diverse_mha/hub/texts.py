"""Text as batches for models of transformers, and the losses of their predictions.

Read by ``hub/adapter.py``. A reader belongs to a kind of model: it cuts text with the model's
tokenizer, pads batches on the right, and turns logits into the loss of every sentence.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from diverse_mha.attention.sites import Sentences
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.progress import counted
from diverse_mha.corpora.text import read_lines
from diverse_mha.hub.states import IGNORED

ROWS = 1024  # rows of logits that are converted at once
BLOCK = 512  # tokens in a block of a language model
CHUNK = 1000  # lines that are tokenized at once
MASKED = 0.15  # share of tokens that a masked language model predicts


class Text(NamedTuple):
    """The text of a split.

    Attributes:
        source: file with a sentence per line.
        target: file with its translations, or the labels of a classifier.
    """

    source: str | Path
    target: str | Path | None = None


class Example(NamedTuple):
    """A sentence, or a block of text, as token ids."""

    number: int  # line, or block, from 0
    source: Tensor
    target: Tensor | None = None  # ids of the translation, or the label (1,)

    @property
    def size(self) -> int:
        """Number of tokens of the longer side."""
        return max(len(self.source), 0 if self.target is None else len(self.target))


class Batch(SimpleNamespace):
    """A padded batch.

    Attributes:
        numbers: numbers of the sentences.
        inputs: arguments of the model.
        labels: what the logits predict, (B, T) with ``IGNORED`` at padding, or (B,); None: nothing.
        scored: arguments of the model from which the loss is computed.
        source_padding: (B, S) bool, True = padding, of what the encoder (or the only stack) reads.
        target_padding: (B, T) of what a decoder with an encoder reads, or None.
    """


class Reader:
    """What all kinds of models share: tokenizer, longest sentence, and lines of text.

    Args:
        model: a model of transformers.
        tokenizer: its tokenizer.
        longest: number of tokens that the model reads at most.
    """

    unit = "token"
    needs_target: str | None = None  # what --target has; None: --target is refused

    def __init__(self, model: Any, tokenizer: Any, longest: int):
        self.model, self.tokenizer, self.longest = model, tokenizer, longest
        tokens = ("pad_token_id", "eos_token_id")  # GPT-NeoX's config has no pad_token_id
        pads = (tokenizer.pad_token_id, *(getattr(model.config, name, None) for name in tokens), 0)
        self.pad = next(n for n in pads if isinstance(n, int) and n >= 0)

    def ids(self, texts: Sentences, **options: Any) -> list[Tensor]:
        """Return the token ids of texts."""
        found = self.tokenizer(list(texts), verbose=False, **options)["input_ids"]
        return [torch.tensor(row, dtype=torch.int32) for row in found]

    def read(self, text: Text, path: str) -> Iterator[Example]:
        """Yield the sentences of a split that the model can read."""
        raise NotImplementedError

    def given(self, sentences: Sentences, target: Sequence[str] | None) -> list[Example]:
        """Return sentences given in Python as examples."""
        raise NotImplementedError

    def batch(self, examples: list[Example]) -> Batch:
        """Return a padded batch."""
        raise NotImplementedError

    def losses(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss of every sentence in nats, and its number of predictions, (B,) float64.

        Logits (B, T, V) at position t predict ``batch.labels`` (B, T). Logits may also be those of
        the N positions with labels alone, (1, N, V).
        """
        real = batch.labels != IGNORED
        predicted = logits[real] if logits.shape[:2] == real.shape else logits[0]
        labels = batch.labels[real]
        parts = zip(predicted.split(ROWS), labels.split(ROWS), strict=True)
        values = [
            F.cross_entropy(x if x.dtype == torch.float64 else x.float(), y, reduction="none")
            for x, y in parts
        ]
        counts = real.sum(dim=1)
        rows = torch.arange(len(real), device=logits.device).repeat_interleave(counts)
        sums = logits.new_zeros(len(real), dtype=torch.float64)
        losses = torch.cat(values).double() if values else sums[:0]
        return sums.index_add(0, rows, losses), counts.double()

    def predicted(self, example: Example) -> Tensor | None:
        """Return the token that each query of the decoder predicts; None for an encoder."""
        return None

    def language_code(self) -> int | None:
        """Return the token with which a multilingual model begins translations, or None."""
        return None

    def fitting(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield the examples that are neither empty nor too long."""
        for one in examples:
            if 0 < one.size <= self.longest and len(one.source):
                yield one

    def padded(self, rows: list[Tensor], value: int) -> Tensor:
        """Return rows of ids, padded on the right, (B, T) int64."""
        rows = [row.long() for row in rows]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)

    def _side(self, rows: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return padded ids and their padding mask, True = padding."""
        lengths = torch.tensor([len(row) for row in rows])
        return self.padded(rows, self.pad), torch.arange(int(lengths.max())) >= lengths[:, None]


def _paired(source: str | Path, target: Any) -> Iterator[tuple[int, str, str]]:
    """Yield line number and line of two files, which must have the same number of lines."""
    sides = [list(read_lines(Path(path))) for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            Option("target", target),
            f": has {counted(len(sides[1]), 'line')}, but {source} has "
            f"{counted(len(sides[0]), 'line')}; give one for each line",
        )
    for number, (one, two) in enumerate(zip(*sides, strict=True)):
        yield number, one, two


def _chunks(lines: Iterable) -> Iterator[list]:
    """Yield lists of ``CHUNK`` items."""
    held = []
    for line in lines:
        held.append(line)
        if len(held) == CHUNK:
            yield held
            held = []
    if held:
        yield held


def _targets(examples: list[Example]) -> list[Tensor]:
    """Return the targets of the examples that have one."""
    return [one.target for one in examples if one.target is not None]


class Translation(Reader):
    """Reads sentences and translations, for encoder-decoders."""

    needs_target = "translations"

    def _check_languages(self) -> None:
        """Raise ``UserError`` if the tokenizer of a multilingual model has no target language.

        Without one, mBART and NLLB mark translations as English or as the source language.
        """
        made, saved = self.tokenizer, self.tokenizer.init_kwargs
        path = made.name_or_path or type(self.model).__name__
        source, target = (
            getattr(made, name, None) or saved.get(name) for name in ("src_lang", "tgt_lang")
        )
        if source and not target:
            raise UserError(
                f"{path}: the tokenizer does not know the language of the translations; set its "
                "src_lang and tgt_lang, and save it there"
            )
        if target and not hasattr(made, "tgt_lang"):
            raise UserError(
                f"{path}: transformers {transformers.__version__} ignores the tokenizer's "
                "languages; this needs version 5.6 or newer"
            )

    def language_code(self) -> int | None:
        """Return the code of the tokenizer's target language, if translations begin with it."""
        if not getattr(self.tokenizer, "tgt_lang", None):
            return None
        first = int(self.ids([""], text_target=True)[0][0])
        tokens = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        return None if first in tokens else first

    def read(self, text: Text, path: str) -> Iterator[Example]:
        """Yield the sentence pairs."""
        self._check_languages()
        for lines in _chunks(_paired(text.source, text.target)):
            numbers, sources, targets = zip(*lines, strict=True)
            sides = self.ids(sources), self.ids(targets, text_target=True)
            yield from self.fitting(map(Example, numbers, *sides))

    def ids(self, texts: Sentences, *, text_target: bool = False, **options: Any) -> list[Tensor]:
        """Return the token ids of texts in the source, or the target language."""
        if not text_target:
            return super().ids(texts, **options)
        found = self.tokenizer(text_target=list(texts), verbose=False, **options)
        return [torch.tensor(row, dtype=torch.int32) for row in found["input_ids"]]

    def given(self, sentences: Sentences, target: Sequence[str] | None) -> list[Example]:
        """Return sentence pairs; their translations are made by the caller if there is no target.

        Raises:
            UserError: the numbers of sentences and of translations differ.
        """
        self._check_languages()
        if target is not None and len(target) != len(sentences):
            raise UserError(
                f"target: has {len(target)} texts for {len(sentences)} sentences; give one for each"
            )
        targets = [None] * len(sentences)
        if target is not None:
            targets = self.ids(target, text_target=True)
        return [*map(Example, range(len(sentences)), self.ids(sentences), targets)]

    def batch(self, examples: list[Example]) -> Batch:
        """Return a padded batch of sentence pairs."""
        source, source_padding = self._side([one.source for one in examples])
        labels, target_padding = self._side(_targets(examples))
        labels = labels.masked_fill(target_padding, IGNORED)
        inputs = {
            "input_ids": source,
            "attention_mask": (~source_padding).long(),
            "decoder_input_ids": self._shifted(labels),
            "decoder_attention_mask": (~target_padding).long(),
            "use_cache": False,
        }
        return Batch(
            numbers=[one.number for one in examples], inputs=inputs, labels=labels, scored=inputs,
            source_padding=source_padding, target_padding=target_padding,
        )  # fmt: skip

    def _shifted(self, labels: Tensor) -> Tensor:
        """Return the decoder's input, as the model makes it from labels."""
        make = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        if make is not None:
            return make(labels=labels.clone())  # FSMT changes its argument
        start = self.model.config.decoder_start_token_id
        shifted = torch.cat((labels.new_full((len(labels), 1), start), labels[:, :-1]), dim=1)
        return shifted.masked_fill(shifted == IGNORED, self.pad)

    def predicted(self, example: Example) -> Tensor | None:
        """Return the translation."""
        return example.target


class LanguageModel(Reader):
    """Reads text in blocks, for decoders.

    A block has ``longest`` tokens. If the tokenizer puts a token in front of a text, that token is
    in front of every block. The first token of a block is not predicted.
    """

    def _begin(self) -> list[int]:
        begin = self.tokenizer.bos_token_id
        found = self.tokenizer("a")["input_ids"]
        return [begin] if begin is not None and found[:1] == [begin] else []

    def read(self, text: Text, path: str) -> Iterator[Example]:
        """Yield the blocks; lines are joined by line breaks."""
        begin = torch.tensor(self._begin(), dtype=torch.int32)
        size, number, held = self.longest - len(begin), 0, begin[:0]
        for lines in _chunks(read_lines(Path(text.source))):
            (ids,) = self.ids(["\n".join(lines) + "\n"], add_special_tokens=False)
            held = torch.cat((held, ids))
            while len(held) >= size:
                yield Example(number, torch.cat((begin, held[:size])))
                held, number = held[size:], number + 1
        if len(begin) + len(held) > 1:
            yield Example(number, torch.cat((begin, held)))

    def given(self, sentences: Sentences, target: Sequence[str] | None) -> list[Example]:
        """Return sentences, each as a text of its own."""
        if target is not None:
            raise UserError("target: is for translation models; leave it out")
        return [*map(Example, range(len(sentences)), self.ids(sentences))]

    def batch(self, examples: list[Example]) -> Batch:
        """Return a padded batch; labels are the next tokens."""
        source, padding = self._side([one.source for one in examples])
        labels = source.masked_fill(padding, IGNORED).roll(-1, dims=1)
        labels[:, -1] = IGNORED
        inputs = {
            "input_ids": source, "attention_mask": (~padding).long(), "use_cache": False
        }  # fmt: skip
        return Batch(
            numbers=[one.number for one in examples], inputs=inputs, labels=labels, scored=inputs,
            source_padding=padding, target_padding=None,
        )  # fmt: skip

    def predicted(self, example: Example) -> Tensor | None:
        """Return the next tokens; after the last one, the end of the text."""
        end = self.tokenizer.eos_token_id
        return torch.cat((example.source[1:], torch.tensor([self.pad if end is None else end])))


class MaskedLanguageModel(Reader):
    """Reads sentences for encoders; the loss is that of tokens replaced by the mask token.

    In each sentence, 15% of the tokens, and at least one, are masked for the loss; which ones
    depends on the number of the sentence alone. Head states are those of the unmasked sentence.
    """

    def read(self, text: Text, path: str) -> Iterator[Example]:
        """Yield the sentences; a tab separates the sentences of a pair."""
        for lines in _chunks(enumerate(read_lines(Path(text.source)))):
            numbers, texts = zip(*lines, strict=True)
            yield from self.fitting(map(Example, numbers, self._pairs(texts, text.source)))

    def _pairs(self, texts: Sequence[str], where: object) -> list[Tensor]:
        """Return the token ids of lines, which are pairs if they have a tab."""
        rows = [tuple(text.split("\t", 1)) for text in texts]
        if all(len(row) == 1 for row in rows):
            return self.ids(texts)
        if any(len(row) == 1 for row in rows):
            raise UserError(f"{where}: some have a tab, others not; give pairs or sentences")
        return self.ids([row[0] for row in rows], text_pair=[row[1] for row in rows])

    def given(self, sentences: Sentences, target: Sequence[str] | None) -> list[Example]:
        """Return sentences, or tuples of two, as examples."""
        if target is not None:
            raise UserError("target: is for translation models; leave it out")
        texts = [text if isinstance(text, str) else "\t".join(text) for text in sentences]
        return [*map(Example, range(len(texts)), self._pairs(texts, "sentences"))]

    def batch(self, examples: list[Example]) -> Batch:
        """Return a padded batch, with labels at the masked positions of ``scored``."""
        source, padding = self._side([one.source for one in examples])
        inputs = {"input_ids": source, "attention_mask": (~padding).long()}
        labels, scored = None, inputs
        if self.tokenizer.mask_token_id is not None:
            chosen = self._chosen(source, padding, [one.number for one in examples])
            labels = source.masked_fill(~chosen, IGNORED)
            masked = source.masked_fill(chosen, self.tokenizer.mask_token_id)
            scored = inputs | {"input_ids": masked}
        return Batch(
            numbers=[one.number for one in examples], inputs=inputs, labels=labels, scored=scored,
            source_padding=padding, target_padding=None,
        )  # fmt: skip

    def _chosen(self, source: Tensor, padding: Tensor, numbers: list[int]) -> Tensor:
        """Return which tokens are masked, (B, T) bool."""
        special = torch.tensor(self.tokenizer.all_special_ids)
        free, chosen = ~torch.isin(source, special) & ~padding, torch.zeros_like(padding)
        for row, number in enumerate(numbers):
            places = free[row].nonzero().flatten()
            if len(places):
                order = torch.randperm(len(places), generator=torch.Generator().manual_seed(number))
                count = max(1, round(MASKED * len(places)))
                chosen[row, places[order[:count]]] = True
        return chosen


class Classifier(MaskedLanguageModel):
    """Reads sentences and labels; the loss is that of the labels."""

    unit = "example"
    needs_target = "labels"

    def read(self, text: Text, path: str) -> Iterator[Example]:
        """Yield the sentences with their labels, by the names or numbers in the config."""
        names = {str(name): number for name, number in self.model.config.label2id.items()}
        for lines in _chunks(_paired(text.source, text.target)):
            numbers, texts, labels = zip(*lines, strict=True)
            found = []
            for number, label in zip(numbers, labels, strict=True):
                known = names.get(label.strip(), label.strip())
                if str(known) not in map(str, names.values()):
                    raise UserError(
                        f"{text.target}: line {number + 1}: label {label.strip()!r} is not one of "
                        f"{', '.join(names)}"
                    )
                found.append(torch.tensor([int(known)]))
            yield from self.fitting(map(Example, numbers, self._pairs(texts, text.source), found))

    def batch(self, examples: list[Example]) -> Batch:
        """Return a padded batch with the labels, if the examples have some."""
        batch = super().batch(examples)
        batch.scored, batch.labels = batch.inputs, None
        labels = _targets(examples)
        if len(labels) == len(examples):
            batch.labels = torch.cat(labels)
        return batch

    def losses(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss of every label, and ones."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        losses = F.cross_entropy(logits, batch.labels, reduction="none").double()
        return losses, torch.ones_like(losses)
