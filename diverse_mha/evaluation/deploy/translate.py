"""Translates plain text: ``diverse-mha translate``."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from diverse_mha.common.arguments import add_cpu
from diverse_mha.common.errors import UserError
from diverse_mha.common.plugins import add_user_dir, import_plugin

if TYPE_CHECKING:
    from diverse_mha.evaluation.deploy.translator import Translation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha translate``."""
    from diverse_mha.evaluation.deploy.translator import add_batch_arguments, add_beam_arguments

    parser.epilog = (
        "example:\n  diverse-mha translate runs/mine/checkpoint_best.pt data/mine/bin < text.de"
    )
    parser.add_argument("checkpoint", help="the model; several joined by ':' form an ensemble")
    parser.add_argument("data", metavar="DATA", help="the folder bin that data-prep made")
    search = parser.add_argument_group("search")
    add_beam_arguments(search)
    add_batch_arguments(search)
    parser.add_argument(
        "--alignments",
        nargs="?",
        const="auto",
        metavar="LAYER.HEAD",
        help="also print the words of both sides and their alignment by a head such as 2.4, "
        "separated by tabs (default: the head that align chooses on valid)",
    )
    add_user_dir(parser)
    add_cpu(parser)


def plain_lines(stream: BinaryIO) -> Iterator[str]:
    r"""Yield the lines of a stream without line ends (only ``\n`` is one) or byte order mark."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"line {number}: is not UTF-8 text ({error.reason})") from None


def _alignments(args: argparse.Namespace) -> Callable[["Translation"], str]:
    """Return what writes the words of a translation and their links, each after a tab."""
    from diverse_mha.evaluation.aligner import Aligner, pharaoh
    from diverse_mha.evaluation.loaded import load

    if os.pathsep in args.checkpoint:
        raise UserError("--alignments: is of one model, no ensemble; give one checkpoint")
    aligner = Aligner(load(args.checkpoint, args.data, cpu=args.cpu), args.data)
    row = aligner.choose("--alignments", args.alignments)
    print("aligned by layer {}, head {}".format(*aligner.head(row)), file=sys.stderr)

    def columns(line: "Translation") -> str:
        if line.pair is None:
            return "\t\t\t"
        found = aligner.pair(*line.pair)
        return f"\t{found.source}\t{found.target}\t{pharaoh(found, row)}"

    return columns


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha translate``."""
    from tqdm import tqdm

    from diverse_mha.evaluation.deploy.translator import Translator

    for name, stream, cure in (("input", sys.stdin, "< TEXT"), ("output", sys.stdout, "> FILE")):
        if stream is None:
            raise UserError(f"standard {name} is closed; give {cure}")
    import_plugin(args.user_dir)
    translator = Translator(args.checkpoint, args.data, args)
    columns = _alignments(args) if args.alignments else lambda _: ""
    if sys.stdin.isatty():
        args.buffer = 1  # somebody waits for the answer
    start, count = time.monotonic(), 0
    sys.stdout.reconfigure(encoding="utf-8")
    with tqdm(unit=" lines", leave=False, disable=None) as bar:
        for count, line in enumerate(translator.translate(plain_lines(sys.stdin.buffer)), 1):  # noqa: B007
            # Somebody may wait for a portion.
            print(line.text + columns(line), flush=count % args.buffer == 0)
            bar.update()
    seconds = time.monotonic() - start
    print(f"{count:,} lines in {seconds:.1f} s ({count / seconds:.0f} a second)", file=sys.stderr)
    return 0
