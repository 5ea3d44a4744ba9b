"""``diverse-mha align``: word alignments from one head of the encoder-decoder attention."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.data import data_utils
from torch import Tensor

from diverse_mha.common.errors import UserError, add_cpu, add_number
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.progress import counted, hide_log
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.corpora.prepared import preparation, subwords_of
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.checkpoints import Loaded, head_states, iterate_batches, load, on_device
from diverse_mha.measures.alignment import (
    Links,
    agreement,
    alignment_error,
    best_sources,
    word_places,
)

_LINK = re.compile(r"(\d+)(-|p)(\d+)")
AGREEMENT = "how often the head aligns to the same source word as the others (Kumar and Byrne 2002)"


class Aligned(NamedTuple):
    """The alignment of a sentence by every head."""

    number: int  # line, from 0
    sources: int  # number of source words
    choices: Tensor  # (heads and layer averages, target words): index of the source word
    target: str  # the target words
    known: bool  # False if unknown subwords made the word boundaries a guess


#: Subwords of source and target; None without the segmented text.
Subwords = tuple[list[str] | None, list[str] | None]


class Aligner:
    """Aligns words by every head of a model's encoder-decoder attention.

    Heads are rows, layer by layer. ``data`` is the data folder, which determines the subwords.
    """

    def __init__(self, loaded: Loaded, data: str):
        if "cross" not in loaded.model.heads:
            raise UserError(
                f"{loaded.path}: has no attention to a source; give a translation model"
            )
        self.loaded, kept = loaded, loaded.model.kept_heads["cross"]
        self.layers = len(kept)
        self._places = [(layer, head) for layer, heads in enumerate(kept, 1) for head in heads]
        made = preparation(Path(data)).post_process
        self._data = Path(data).absolute()
        self._languages = loaded.task.cfg.source_lang, loaded.task.cfg.target_lang
        dictionaries = [Path(data, f"dict.{code}.txt") for code in self._languages]
        self._kinds = [made or subwords_of(path) for path in dictionaries]
        self._pad = loaded.model.decoder.padding_idx

    def head(self, row: int) -> tuple[int, int]:
        """Return the layer and the head of a row, from 1."""
        return self._places[row]

    def choose(self, option: str, text: str) -> int:
        """Return the row of ``LAYER.HEAD``; ``auto``: that of the highest agreement on valid."""
        if text == "auto":
            agreed = self.agreement(self.split("valid"))
            return max(range(len(agreed)), key=agreed.__getitem__)
        numbers = re.fullmatch(r"(\d+)\.(\d+)", text)
        place = tuple(map(int, numbers.groups())) if numbers else None
        if place not in self._places:
            heads = self.loaded.model.heads["cross"]
            raise UserError(
                f"{option} {text}: {self.loaded.path} has {self.layers} layers of {heads} "
                "heads; give auto, or LAYER.HEAD such as 1.1"
            )
        return self._places.index(place)

    def agreement(self, sentences: list[Aligned]) -> list[float]:
        """Return each head's agreement with the others."""
        rows = len(self._places)
        return agreement(
            torch.cat([sentence.choices[:rows] for sentence in sentences], dim=1)
        ).tolist()

    def split(self, subset: str, max_tokens: int = 4000) -> list[Aligned]:
        """Align the sentences of a split."""
        sentences, texts = [], None
        for sample in iterate_batches(self.loaded, subset, max_tokens=max_tokens, label="aligning"):
            # iterate_batches has loaded the data.
            texts = texts or [self._text(subset, language) for language in self._languages]
            subwords = [tuple(text and text[n] for text in texts) for n in sample["id"].tolist()]
            sentences += self._batch(sample, subwords)
        if guessed := sum(not sentence.known for sentence in sentences):
            missing = self._data.parent / "bpe" / f"{subset}.{self._languages[0]}"
            print(
                f"note: {guessed:,} sentences of {subset} have unknown subwords, so their words "
                f"are a guess: {missing} is missing or has another text",
                file=sys.stderr,
            )
        if 2 * sum(
            1 in (sentence.sources, sentence.choices.size(1)) for sentence in sentences
        ) > len(sentences):
            print(
                f"note: most sentences of {subset} have one word, the text between two spaces; "
                "to align words, put spaces between them before the text is prepared",
                file=sys.stderr,
            )
        return sorted(sentences, key=lambda sentence: sentence.number)

    def _text(self, subset: str, language: str) -> list[list[str]] | None:
        """Return a side's subwords from data-prep's ``bpe/``; None if they do not fit the split."""
        path = self._data.parent / "bpe" / f"{subset}.{language}"
        lines = [line.split() for line in read_lines(path)] if path.is_file() else []
        return lines if len(lines) == len(self.loaded.task.dataset(subset)) else None

    def pair(self, source: Tensor, target: Tensor, subwords: list[str]) -> Aligned:
        """Align a source sentence with these subwords to its translation; both end with eos."""
        inputs = {"src_tokens": source[None].long(), "src_lengths": torch.tensor([len(source)])}
        inputs["prev_output_tokens"] = target[None].long().roll(1)  # eos comes first
        sample = {"id": torch.zeros(1), "net_input": inputs, "target": target[None].long()}
        (alignment,) = self._batch(next(on_device(self.loaded, [sample])), [(subwords, None)])
        return alignment

    def _batch(self, sample: dict, subwords: list[Subwords]) -> Iterator[Aligned]:
        states = head_states(self.loaded.model, sample, {"cross": ("weights",)})["cross"]
        weights = [layer.weights.float() for layer in states]  # (B, H, T, S) each
        rows_of_heads = torch.cat(
            [*weights, *(w.mean(dim=1, keepdim=True) for w in weights)], dim=1
        ).cpu()
        task = self.loaded.task
        dictionaries = task.source_dictionary, task.target_dictionary
        for row, number in enumerate(sample["id"].tolist()):
            tokens = sample["net_input"]["src_tokens"][row], sample["target"][row]
            positions, words, text, known = [], [], "", True
            for line, dictionary, kind, line_subwords in zip(
                tokens, dictionaries, self._kinds, subwords[row], strict=True
            ):
                line = line.tolist()
                real = [at for at, x in enumerate(line) if x not in (self._pad, dictionary.eos())]
                symbols = line_subwords
                if line_subwords is None or len(line_subwords) != len(real):
                    symbols = [dictionary[line[at]] for at in real]
                    known &= not kind or dictionary.unk() not in line
                positions.append(real)
                words.append(word_places(symbols, kind))
                text = data_utils.post_process(" ".join(symbols), kind or "none")
            counts = [max(side, default=-1) + 1 for side in words]
            if not all(counts):
                nothing = torch.zeros(rows_of_heads.size(1), 0, dtype=torch.long)
                yield Aligned(number, 0, nothing, text, known)
                continue
            weights_of_row = rows_of_heads[row][:, positions[1]][:, :, positions[0]]
            yield Aligned(number, counts[0], best_sources(weights_of_row, *words), text, known)


def links(sentence: Aligned, row: int) -> Links:
    """Return the links of a head, or of a layer's average."""
    return {(source, word) for word, source in enumerate(sentence.choices[row].tolist())}


def pharaoh(sentence: Aligned, row: int) -> str:
    """Return the links of a head in Pharaoh format: ``0-0 1-2``."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links(sentence, row)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha align``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "example:\n  diverse-mha align runs/mine/checkpoint_best.pt data/mine/bin > alignments"
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a translation model")
    parser.add_argument("data", metavar="DATA", help="folder that fairseq-preprocess wrote")
    add_number(parser, "max-tokens", 4000, "tokens in a batch")
    add_cpu(parser)
    add_user_dir(parser)
    what = parser.add_argument_group("what to align")
    what.add_argument("--subset", default="valid", help="split to align (default: valid)")
    head = parser.add_argument_group("which head")
    head.add_argument(
        "--gold", metavar="FILE",
        help="choose the head with the lowest error rate (AER) on these true alignments of the "
        "split: a line a sentence, words from 0, such as 0-0 1-2, possible links 1p2",
    )  # fmt: skip
    head.add_argument(
        "--head",
        metavar="LAYER.HEAD",
        help="use this head, such as 2.4 (default: by --gold, or by agreement on the split)",
    )
    head.add_argument(
        "--report", action="store_true", help="print a table of all heads, not the alignments"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha align``."""
    gold = None if args.gold is None else read_gold(Path(args.gold))
    import_plugin(args.user_dir)
    hide_log("")
    aligner = Aligner(load(args.checkpoint, args.data, cpu=args.cpu), args.data)
    requested = None if args.head is None else aligner.choose("--head", args.head)
    sentences = aligner.split(args.subset, args.max_tokens)
    count = len(aligner.loaded.task.dataset(args.subset))
    if len(sentences) < count:
        note = f"note: {count - len(sentences)} of {count} sentences are too long for the model"
        print(f"{note}, and have no alignment", file=sys.stderr)
    errors = None if gold is None else _errors(sentences, gold, count, args.gold)
    agreed = aligner.agreement(sentences)
    chosen = requested
    if chosen is None:
        values = agreed if errors is None else [-error for error, _, _ in errors[: len(agreed)]]
        chosen = max(range(len(agreed)), key=values.__getitem__)
    if args.report:
        print(to_text(report(aligner, agreed, errors, chosen, args.subset)))
        return 0
    quality = (
        f"agreement {agreed[chosen]:.3f}" if errors is None else f"AER {errors[chosen][0]:.3f}"
    )
    print(
        "aligned by layer {}, head {} ({})".format(*aligner.head(chosen), quality), file=sys.stderr
    )
    lines = [""] * count
    for sentence in sentences:
        lines[sentence.number] = pharaoh(sentence, chosen)
    print("\n".join(lines))
    return 0


def read_gold(path: Path) -> list[tuple[Links, Links]]:
    """Read sure and possible links of each line of a file in Pharaoh format."""
    if not path.is_file():
        raise UserError(f"--gold {path}: no such file; give alignments such as 0-0 1-2")
    links_by_line = []
    for number, line in enumerate(read_lines(path), 1):
        sides: dict[str, Links] = {"-": set(), "p": set()}
        for word in line.split():
            link = _LINK.fullmatch(word)
            if not link:
                raise UserError(f"{path}: line {number}: {word!r} is no link; write 0-0 or 1p2")
            sides[link[2]].add((int(link[1]), int(link[3])))
        links_by_line.append((sides["-"], sides["p"]))
    return links_by_line


def _errors(
    sentences: list[Aligned], gold: list[tuple[Links, Links]], count: int, name: str
) -> list[tuple[float, float, float]]:
    if len(gold) != count:
        raise UserError(
            f"--gold {name}: has {counted(len(gold), 'line')}, the split "
            f"{counted(count, 'sentence')}"
        )
    for sentence in sentences:
        for source, target in set().union(*gold[sentence.number]):
            if source >= sentence.sources or target >= sentence.choices.size(1):
                raise UserError(
                    f"{name}: line {sentence.number + 1}: link {source}-{target} is outside the "
                    f"sentence of {sentence.sources} and {sentence.choices.size(1)} words; "
                    "count from 0"
                )
    sure, possible = ([gold[sentence.number][side] for sentence in sentences] for side in (0, 1))
    rows = range(sentences[0].choices.size(0))
    return [
        alignment_error((links(sentence, row) for sentence in sentences), sure, possible)
        for row in rows
    ]


def report(
    aligner: Aligner,
    agreed: list[float],
    errors: list[tuple[float, float, float]] | None,
    chosen: int,
    subset: str,
) -> Layout:
    """Return the table of all heads and layer averages."""
    names = [tuple(map(str, aligner.head(row))) for row in range(len(agreed))]
    names += [(str(layer + 1), "average") for layer in range(aligner.layers)]
    lines = []
    for row, name in enumerate(names):
        cells = [f"{agreed[row]:.3f}" if row < len(agreed) else "-"]
        cells += [] if errors is None else [f"{value:.3f}" for value in errors[row]]
        lines.append((*name, *cells, "chosen" if row == chosen else ""))
    headings = ["layer", "head", "agreement"]
    headings += [] if errors is None else ["AER", "precision", "recall"]
    notes = [f"agreement: {AGREEMENT}"]
    notes += [] if errors is None else ["AER: 0 to 1, lower is better (Och and Ney 2003)"]
    title = f"Alignments of {subset} by the heads of the encoder-decoder attention"
    return Layout(title, (*headings, ""), tuple(lines), tuple(notes), names=2)
