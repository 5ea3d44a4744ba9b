"""``diverse-mha align``: word alignments from one head of the attention to the source."""

import argparse
import logging
import re
import sys
from pathlib import Path

from diverse_mha.common.arguments import add_cpu, add_number
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_text
from diverse_mha.common.places import check_file
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.aligner import Aligned, Aligner, links, pharaoh
from diverse_mha.evaluation.loaded import load
from diverse_mha.measures.alignment import Links, alignment_error

_LINK = re.compile(r"(\d+)(-|p)(\d+)")
AGREEMENT = "how often the head chooses the same source word as the others (Kumar and Byrne 2002)"


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
    what.add_argument(
        "--translate", metavar="FILE",
        help="align the model's own translations (beam 5), and write them to FILE",
    )  # fmt: skip
    head = parser.add_argument_group("which head")
    head.add_argument(
        "--gold", metavar="FILE",
        help="choose the head with the lowest error rate (AER) on these true alignments of the "
        "split: a line a sentence, words from 0, such as 0-0 1-2, possible links 1p2",
    )  # fmt: skip
    add_number(head, "layer", None, "use a head of this layer, from 1, with --head")
    add_number(head, "head", None, "use this head, from 1 (default: by --gold, or by agreement)")
    head.add_argument(
        "--report", action="store_true", help="print a table of all heads, not the alignments"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha align``."""
    if (args.layer is None) != (args.head is None):
        raise UserError("--layer and --head belong together; give both, or neither")
    if args.translate and args.gold:
        raise UserError(f"--gold {args.gold}: is for the given target; leave out --translate")
    if args.translate:
        check_file("--translate", args.translate)
    gold = None if args.gold is None else read_gold(Path(args.gold))
    import_plugin(args.user_dir)
    logging.getLogger().setLevel(logging.WARNING)  # fairseq logs every file
    aligner = Aligner(load(args.checkpoint, args.data, cpu=args.cpu), args.data)
    aligner.check("--layer", args.layer, aligner.layers)
    aligner.check("--head", args.head, aligner.heads)
    found = aligner.split(args.subset, args.max_tokens, translate=bool(args.translate))
    count = len(aligner.loaded.task.dataset(args.subset))
    if len(found) < count:
        said = f"note: {count - len(found)} of {count} sentences are longer than the model reads"
        print(f"{said}, and have no alignment", file=sys.stderr)
    errors = None if gold is None else _errors(found, gold, count, args.gold)
    agreed = aligner.agreement(found)
    if args.layer is None:
        values = agreed if errors is None else [-error for error, _, _ in errors[: len(agreed)]]
        chosen = max(range(len(agreed)), key=values.__getitem__)
    else:
        chosen = aligner.row(args.layer, args.head)
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
    texts = [""] * count
    for one in found:
        lines[one.number] = pharaoh(one, chosen)
        texts[one.number] = one.target
    if args.translate:
        write_text(Path(args.translate), "".join(f"{text}\n" for text in texts))
    print("\n".join(lines))
    return 0


def read_gold(path: Path) -> list[tuple[Links, Links]]:
    """Read sure and possible links of every line of a file in Pharaoh format."""
    if not path.is_file():
        raise UserError(f"--gold {path}: no such file; give alignments such as 0-0 1-2")
    found = []
    for number, line in enumerate(read_lines(path), 1):
        sides: dict[str, Links] = {"-": set(), "p": set()}
        for word in line.split():
            link = _LINK.fullmatch(word)
            if not link:
                raise UserError(f"{path}: line {number}: {word!r} is no link; write 0-0 or 1p2")
            sides[link[2]].add((int(link[1]), int(link[3])))
        found.append((sides["-"], sides["p"]))
    return found


def _errors(
    found: list[Aligned], gold: list[tuple[Links, Links]], count: int, name: str
) -> list[tuple[float, float, float]]:
    if len(gold) != count:
        raise UserError(f"--gold {name}: has {len(gold)} lines, the split {count} sentences")
    for one in found:
        for source, target in set().union(*gold[one.number]):
            if source >= one.sources or target >= one.choices.size(1):
                raise UserError(
                    f"{name}: line {one.number + 1}: link {source}-{target} is outside the "
                    f"sentence of {one.sources} and {one.choices.size(1)} words; count from 0"
                )
    sure, possible = ([gold[one.number][side] for one in found] for side in (0, 1))
    rows = range(found[0].choices.size(0))
    return [alignment_error((links(one, row) for one in found), sure, possible) for row in rows]


def report(
    aligner: Aligner,
    agreed: list[float],
    errors: list[tuple[float, float, float]] | None,
    chosen: int,
    subset: str,
) -> Layout:
    """Lay out every head and each layer's average."""
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
    title = f"Alignments of {subset} by the heads of the attention to the source"
    return Layout(title, (*headings, ""), tuple(lines), tuple(notes), names=2)
