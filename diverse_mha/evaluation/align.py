"""``diverse-mha align``: word alignments from heads of the encoder-decoder attention."""

import argparse
import math
import re
import sys
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError, add_cpu, add_number
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.progress import counted, hide_log
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.head_aligner import HeadAligner, pharaoh
from diverse_mha.evaluation.opener import Source, add_text, read_source
from diverse_mha.measures.alignment import (
    SYMMETRISATIONS,
    Links,
    agreement,
    alignment_error,
    symmetrise,
)

_LINK = re.compile(r"(-1|\d+)(-|p)(-1|\d+)")
NOTES = (
    "step: a row uses the attention weights of the decoder step that predicts the target word "
    "(same), or of the next step, which reads the target word (next)",
    "consistency: share of the other links of a source word that lead to the same target word; "
    "without --gold, the row with the highest consistency is chosen",
    "agreement: share of target words for which another row chooses the same source word, on "
    "average over the other rows",
    "AER: alignment error rate, 0 to 1, lower is better (Och and Ney 2003); recall is that of sure "
    "links (- if there are none)",
)
Score = tuple[float, float, float]  # AER, precision, recall
DEFAULT = "grow-diag-final-and"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha align``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "examples:\n  diverse-mha align runs/mine/checkpoint_best.pt data/mine/bin > alignments\n"
        "  diverse-mha align models/marian --text test.de --target test.en > alignments"
    )
    parser.add_argument("checkpoint", metavar="MODEL", help="a translation model")
    parser.add_argument(
        "data", nargs="?", metavar="DATA",
        help="folder that fairseq-preprocess wrote; --text is for a folder of transformers",
    )  # fmt: skip
    add_text(parser)
    add_number(parser, "max-tokens", 4000, "tokens in a batch")
    add_cpu(parser)
    add_user_dir(parser)
    what = parser.add_argument_group("what to align")
    what.add_argument("--subset", help="split of DATA to align (default: valid)")
    head = parser.add_argument_group("which head")
    head.add_argument(
        "--gold", metavar="FILE",
        help="gold alignments of the split; the head with the lowest error rate (AER) is chosen. "
        "Each line holds the links of a sentence, SOURCE-TARGET, such as 0-0 1-2; a possible link "
        "is written 1p2. Links to the empty word (NULL: -1, or 0 with --gold-from 1) are left out",
    )  # fmt: skip
    head.add_argument(
        "--gold-from",
        type=int,
        choices=(0, 1),
        help="number of a sentence's first word in --gold (default: 0)",
    )
    head.add_argument(
        "--head",
        metavar="LAYER.HEAD",
        help="use this head, such as 2.4 (layer 2, head 4); 2.average: the mean over the heads of "
        "layer 2; 2.4.next: the weights of the decoder step that reads the target word; auto: the "
        "highest consistency on valid (default: the lowest AER on --gold, or without "
        "--gold the highest consistency)",
    )
    head.add_argument(
        "--report", action="store_true", help="print a table of all heads, not the alignments"
    )
    both = parser.add_argument_group("both directions")
    both.add_argument(
        "--reverse",
        metavar="MODEL",
        help="a model of the reverse direction; the alignments of both models are joined",
    )
    both.add_argument(
        "--reverse-data", metavar="DATA",
        help="data folder of the --reverse model, with the same text as DATA (default: DATA)",
    )  # fmt: skip
    both.add_argument(
        "--reverse-head", metavar="LAYER.HEAD", help="head of the --reverse model, as in --head"
    )
    both.add_argument(
        "--symmetrise",
        choices=SYMMETRISATIONS,
        help=f"how to join both directions (default: {DEFAULT})",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha align``."""
    for option, needed in (
        ("gold_from", "gold"),
        ("reverse_data", "reverse"),
        ("reverse_head", "reverse"),
        ("symmetrise", "reverse"),
    ):
        if getattr(args, option) is not None and getattr(args, needed) is None:
            name = option.replace("_", "-")
            raise UserError(
                f"--{name} has no effect without --{needed}; leave it out, or add --{needed}"
            )
    for name in ("subset", "reverse_data"):
        if args.text is not None and getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')} {getattr(args, name)}"
            raise UserError(f"{option} has no effect with --text; leave it out")
    source = read_source(args, [args.checkpoint, *([args.data] if args.data else [])])
    args.subset = args.text or args.subset or "valid"
    gold = None if args.gold is None else Gold(Path(args.gold), args.gold_from or 0)
    import_plugin(args.user_dir)
    hide_log("")
    directions = [Direction(args.checkpoint, source, args, reverse=False)]
    if args.reverse is not None:
        directions.append(Direction(args.reverse, _reversed(source, args), args, reverse=True))
        _check_same_text(directions[0], directions[1], args)
    if gold is not None:
        gold.check(directions[0])
        for direction in directions:
            direction.score(gold)
    method = args.symmetrise or DEFAULT
    if args.report:
        tables = [report(direction, args.subset) for direction in directions]
        if len(directions) > 1:
            tables.append(joined_report(directions, gold, method))
        print("\n\n".join(map(to_text, tables)))
        return 0
    for direction in directions:
        print(f"aligned by {direction.describe()}", file=sys.stderr)
    joined = join(directions, method)
    print("\n".join(pharaoh(joined.get(number, set())) for number in range(directions[0].count)))
    return 0


def _reversed(source: Source, args: argparse.Namespace) -> Source:
    """Return where the sentences of the ``--reverse`` model come from."""
    if source.texts is None:
        return Source(args.reverse_data or source.data)
    read_source(args, [args.reverse])
    return source._replace(texts={name: pair[::-1] for name, pair in source.texts.items()})


def open_aligner(path: str, source: Source, *, cpu: bool) -> HeadAligner:
    """Open a translation model as an aligner."""
    if source.texts is not None:
        from diverse_mha.evaluation.hub_aligner import open_hub_aligner

        return open_hub_aligner(path, source, cpu=cpu)
    from diverse_mha.evaluation.aligner import Aligner
    from diverse_mha.evaluation.models import open_models
    from diverse_mha.evaluation.states import check_translates, open_state

    state = open_state(path)
    check_translates(path, state)
    loaded = open_models(path, source.data, cpu=cpu, heads=True, states={path: state})
    return Aligner(loaded, source.data)


class Gold:
    """Gold alignments, read from a file in Pharaoh format."""

    def __init__(self, path: Path, first: int = 0):
        """Read a file; ``first`` is the number of a sentence's first word."""
        if not path.is_file():
            raise UserError(f"--gold {path}: no such file; give alignments such as 0-0 1-2")
        self.path, self.first = path, first
        #: Sure and possible links of each sentence, with words numbered from 0, without NULL links.
        self.lines: list[tuple[Links, Links]] = []
        #: Line number, text and positions of each link to the empty word (NULL).
        self._null: list[tuple[int, str, tuple[int, int]]] = []
        for number, line in enumerate(read_lines(path), 1):
            sides: dict[str, Links] = {"-": set(), "p": set()}
            for word in line.split():
                link = _LINK.fullmatch(word)
                if not link:
                    raise UserError(f"{path}: line {number}: {word!r} is not a link such as 0-0")
                pair = int(link[1]) - first, int(link[3]) - first
                if min(pair) < 0:
                    self._null.append((number, word, pair))
                else:
                    sides[link[2]].add(pair)
            self.lines.append((sides["-"], sides["p"]))

    def check(self, direction: "Direction") -> None:
        """Raise an error if lines, links or their first number do not fit the split."""
        if len(self.lines) != direction.count:
            raise UserError(
                f"--gold {self.path}: has {counted(len(self.lines), 'line')}, but the split has "
                f"{counted(direction.count, 'sentence')}; give alignments of this split"
            )
        links = {number: set().union(*self.lines[number]) for number in direction.sentences}
        if not any(links.values()):
            raise UserError(
                f"--gold {self.path}: has no link of these sentences; give alignments such as 0-0 "
                "1-2"
            )
        at_end = False  # True if a link leads to the last word of its sentence
        for number, pairs in links.items():
            sizes = direction.words(number)
            for link in sorted(pairs):
                beyond = max(at - size for at, size in zip(link, sizes, strict=True))
                at_end |= beyond == -1
                if beyond >= 0:
                    source, target = (at + self.first for at in link)
                    cure = "if words count from 1, add --gold-from 1, or "
                    cure = cure if self.first == beyond == 0 else ""
                    raise UserError(
                        f"{self.path}: line {number + 1}: link {source}-{target} is outside the "
                        f"sentence of {sizes[0]} source and {sizes[1]} target words; {cure}give "
                        "alignments of these words"
                    )
        self._note_null(at_end)

    def _note_null(self, at_end: bool) -> None:
        """Print a note on NULL links; raise an error if they may be links to first words.

        They may if words are said to count from 1, but no link leads to a last word, or a link is
        0-0.
        """
        if not self._null:
            return
        doubtful = [null for null in self._null if max(null[2]) < 0 or not at_end]
        if self.first == 1 and doubtful:
            number, word, _ = doubtful[0]
            raise UserError(
                f"{self.path}: line {number}: {word} would link to NULL, but words seem to count "
                "from 0; give --gold-from 0, or leave out the NULL links"
            )
        number, word, _ = self._null[0]
        links = f"{counted(len(self._null), 'link')} to the empty word (NULL)"
        verb = "is" if len(self._null) == 1 else "are"
        print(f"note: {links}, such as {word} in line {number}, {verb} left out", file=sys.stderr)

    def score(self, links: dict[int, Links]) -> Score:
        """Return AER, precision and recall of ``links``, which has sentence numbers as keys."""
        sure, possible = ([self.lines[number][side] for number in links] for side in (0, 1))
        return alignment_error(links.values(), sure, possible)


class Direction:
    """A translation model and its alignments of a split.

    ``reverse`` is True for the model of ``--reverse``.
    """

    def __init__(self, checkpoint: str, source: Source, args: argparse.Namespace, *, reverse: bool):
        head = args.reverse_head if reverse else args.head
        self.aligner = open_aligner(checkpoint, source, cpu=args.cpu)
        self.reverse, self.data = reverse, source.data
        option = "--reverse-head" if reverse else "--head"
        self._row = None if head is None else self.aligner.choose(option, head)
        sentences = self.aligner.split(args.subset, args.max_tokens)
        self.count = self.aligner.count(args.subset)
        if len(sentences) < self.count:
            note = f"{self.count - len(sentences)} of {self.count} sentences are too long for"
            print(f"note: {note} {checkpoint}, and have no alignment", file=sys.stderr)
        self.sentences = {sentence.number: sentence for sentence in sentences}
        self.consistency = self.aligner.consistency(sentences)
        self.scores: list[Score] | None = None

    def score(self, gold: Gold) -> None:
        """Compute AER, precision and recall of every candidate."""
        self.scores = [gold.score(self.links(row)) for row in range(len(self.consistency))]

    @property
    def row(self) -> int:
        """Row of the candidate in use: from --head, else by the best AER, else consistency."""
        if self._row is not None:
            return self._row
        values = (
            self.consistency if self.scores is None else [-error for error, _, _ in self.scores]
        )
        return max(range(len(values)), key=values.__getitem__)

    def links(self, row: int) -> dict[int, Links]:
        """Return a candidate's links by sentence number, in the direction of the forward model."""
        by_number = {number: sentence.links(row) for number, sentence in self.sentences.items()}
        if self.reverse:
            by_number = {number: {(s, t) for t, s in links} for number, links in by_number.items()}
        return by_number

    def describe(self) -> str:
        """Return the candidate in use and its quality."""
        quality = f"consistency {self.consistency[self.row]:.3f}"
        if self.scores is not None:
            quality = f"AER {_rate(self.scores[self.row][0])}"
        return f"{self.aligner.candidates[self.row].describe()} ({quality})"

    def words(self, number: int) -> tuple[int, int]:
        """Return the number of source and target words of a sentence in the forward direction."""
        sentence = self.sentences[number]
        one, other = len(sentence.sources), len(sentence.targets)
        return (other, one) if self.reverse else (one, other)


def _check_same_text(forward: Direction, backward: Direction, args: argparse.Namespace) -> None:
    """Raise an error unless the models align the same text in opposite directions."""
    one, other = forward.aligner.languages, backward.aligner.languages
    if other != one[::-1]:
        raise UserError(
            f"--reverse {args.reverse}: translates {'-'.join(other)}; give a model of "
            f"{'-'.join(one[::-1])}"
        )
    cure = f"; give --reverse-data of the same text as {forward.data}"
    if backward.count != forward.count:
        raise UserError(
            f"{backward.data}: {args.subset} has {counted(backward.count, 'sentence')}, not "
            f"{forward.count}{cure}"
        )
    for number in sorted(forward.sentences.keys() & backward.sentences.keys()):
        sizes = [direction.words(number) for direction in (forward, backward)]
        if sizes[0] != sizes[1]:
            (a, b), (c, d) = sizes
            raise UserError(
                f"{backward.data}: sentence {number + 1} of {args.subset} has {c} words in "
                f"{one[0]} and {d} in {one[1]}, not {a} and {b}{cure}"
            )


def join(directions: list[Direction], method: str) -> dict[int, Links]:
    """Return the links by sentence number. Links of two directions are joined by ``method``."""
    sides = [direction.links(direction.row) for direction in directions]
    if len(sides) == 1:
        return sides[0]
    one, other = sides
    numbers = sorted(one.keys() & other.keys())
    return {number: symmetrise(one[number], other[number], method) for number in numbers}


def _rate(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def report(direction: Direction, subset: str) -> Layout:
    """Return a table with one row for each candidate head of a direction."""
    sentences = direction.sentences.values()
    agreed = agreement(torch.cat([s.choices for s in sentences], dim=1)).tolist()
    lines = []
    for row, (layer, head, shifted) in enumerate(direction.aligner.candidates):
        cells = [f"{direction.consistency[row]:.3f}", f"{agreed[row]:.3f}"]
        if direction.scores is not None:
            cells += map(_rate, direction.scores[row])
        step = "next" if shifted else "same"
        chosen = "chosen" if row == direction.row else ""
        lines.append((str(layer), str(head or "average"), step, *cells, chosen))
    headings = ["layer", "head", "step", "consistency", "agreement"]
    headings += [] if direction.scores is None else ["AER", "precision", "recall"]
    notes = NOTES[:3] if direction.scores is None else NOTES
    names = "-".join(direction.aligner.languages)
    title = f"Alignments of {subset} by the heads of the encoder-decoder attention, {names}"
    return Layout(title, (*headings, ""), tuple(lines), notes, names=3)


def joined_report(directions: list[Direction], gold: Gold | None, method: str) -> Layout:
    """Return a table with the links and scores of each method of joining both directions."""
    lines = []
    for name in SYMMETRISATIONS:
        joined = join(directions, name)
        cells = [f"{sum(map(len, joined.values())):,}"]
        cells += [] if gold is None else map(_rate, gold.score(joined))
        lines.append((name, *cells, "chosen" if name == method else ""))
    headings = ["method", "links"] + ([] if gold is None else ["AER", "precision", "recall"])
    chosen = " and ".join(str(d.aligner.candidates[d.row]) for d in directions)
    return Layout(f"Joined alignments of heads {chosen}", (*headings, ""), tuple(lines), ())
