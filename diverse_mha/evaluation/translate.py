"""``diverse-mha translate``: translates plain text from standard input with one or more models."""

import argparse
import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import diverse_mha
from diverse_mha.common.errors import UserError, add_cpu, add_number
from diverse_mha.common.files import check_checkpoint, check_data_folder
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.progress import counted, hide_log, terminal_bar
from diverse_mha.common.ranges import between
from diverse_mha.corpora.prepared import Side, preparation, read_side
from diverse_mha.corpora.subwords import BLANK, blanks_found, join_subwords, reads_blanks
from diverse_mha.evaluation.ctranslate2_engine import Search, open_engine
from diverse_mha.evaluation.engine import Engine, Found, Lines

if TYPE_CHECKING:
    from diverse_mha.evaluation.search import BeamSearch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha translate``."""
    parser.epilog = (
        "example:\n  diverse-mha translate runs/mine/checkpoint_best.pt data/mine/bin < text.de"
    )
    parser.add_argument("checkpoint", help="the model; several joined by ':' form an ensemble")
    parser.add_argument("data", metavar="DATA", help="the folder bin that data-prep made")
    search = parser.add_argument_group("search")
    add_beam_arguments(search)
    search.add_argument(
        "--max-len-a",
        type=between(0, 1000).parse_float,
        default=0.0,
        metavar="A",
        help="longest translation: A times the source's length + B subwords (default: 0)",
    )
    add_number(search, "max-len-b", 200, "see --max-len-a")
    text = "number of lines that are read, sorted by length and translated together"
    add_number(search, "buffer", 1000, text)
    add_number(search, "max-tokens", 4000, "source subwords in a batch, padding included")
    parser.add_argument(
        "--alignments",
        nargs="?",
        const="auto",
        metavar="LAYER.HEAD",
        help="also print source words, target words and their alignment, separated by tabs; the "
        "alignment is from a head such as 2.4, named as in align --head; without LAYER.HEAD, from "
        "the head that align chooses on valid",
    )
    add_engine(search, "auto")
    add_user_dir(parser)
    add_cpu(parser)


class Translation(NamedTuple):
    """A translated line."""

    text: str
    source: str  # the input line
    subwords: list[str]  # subwords of the source
    found: Found  # the translation in subwords


def add_beam_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare ``--beam`` and ``--lenpen``."""
    add_number(parser, "beam", 5, "beam size")
    # At most 10, because larger powers of the length overflow float32.
    text = "length penalty, -10 to 10; values over 1 favour long translations (default: 1)"
    parser.add_argument(
        "--lenpen", type=between(-10, 10).parse_float, default=1.0, metavar="X", help=text
    )


def add_engine(parser: argparse._ActionsContainer, default: str) -> None:
    """Declare ``--engine``."""
    parser.add_argument(
        "--engine", choices=("auto", "fairseq", "ctranslate2"), default=default,
        help="program that runs the beam search; CTranslate2 is faster; auto: CTranslate2 if it is "
        "installed and supports the model, and no GPU is used (default: %(default)s)",
    )  # fmt: skip


_EMPTY = Found([], 0.0)


def translate(
    engine: Engine,
    lines: Iterable[str],
    encode: Callable[[str], str],
    decode: Callable[[list[str]], str],
    *,
    buffer: int,
    max_tokens: int,
) -> Iterator[Translation]:
    """Yield the translations of lines of plain text in order; an empty line stays empty.

    Args:
        engine: the model and its search.
        lines: the text.
        encode: splits a line into subwords, joined by spaces.
        decode: joins the subwords of a translation to plain text.
        buffer: number of lines that are translated together.
        max_tokens: source subwords in a batch, with eos, which no line may exceed.
    """
    lines, start = iter(lines), 0
    while portion := list(islice(lines, buffer)):
        encoded = [encode(line).split() for line in portion]
        for number, subwords in enumerate(encoded, start + 1):
            _check_length(number, len(subwords) + 1, engine.longest, max_tokens)
        found = engine.translate(Lines([subwords for subwords in encoded if subwords]))
        for line, subwords in zip(portion, encoded, strict=True):
            best = next(found) if subwords else _EMPTY
            yield Translation(decode(best.subwords), line, subwords, best)
        start += len(portion)


def _check_length(number: int, length: int, longest: int, max_tokens: int) -> None:
    line = f"line {number}: {length:,} subwords"
    if length > longest:
        raise UserError(f"{line}, but the model reads at most {longest:,}; split the line")
    if length > max_tokens:
        raise UserError(f"{line}, more than --max-tokens {max_tokens:,}; give {length} or more")


def _open(args: argparse.Namespace) -> Engine:
    """Open the model or ensemble for a search by CTranslate2 or fairseq."""
    hide_log()
    for path in args.checkpoint.split(os.pathsep):
        check_checkpoint(path)
    check_data_folder(args.data)
    preparation(Path(args.data))  # refuse a damaged corpus.json before the engine prints its note
    option = "--alignments" if args.alignments else "--max-len-a" if args.max_len_a else ""
    engine = open_engine(
        args.engine, args.checkpoint, args.data, cpu=args.cpu,
        search=Search(args.beam, args.lenpen, args.max_len_b, args.max_tokens),
        refused=f"CTranslate2 does not support {option}" if option else "",
    )  # fmt: skip
    return engine or _open_fairseq(args)


def _open_fairseq(args: argparse.Namespace) -> "BeamSearch":
    """Open the model or ensemble for a search by fairseq, and for alignments."""
    diverse_mha.register()
    from fairseq.dataclass.configs import DatasetConfig, FairseqConfig, GenerationConfig
    from omegaconf import OmegaConf

    from diverse_mha.evaluation.equal_weights import note_equal_weights
    from diverse_mha.evaluation.models import open_models
    from diverse_mha.evaluation.search import BeamSearch
    from diverse_mha.evaluation.states import check_translates, open_state

    paths = args.checkpoint.split(os.pathsep)
    states = {path: open_state(path) for path in paths}
    for path, state in states.items():
        check_translates(path, state)
    note_equal_weights(paths, "the ensemble", states.__getitem__)
    heads = bool(args.alignments)
    loaded = open_models(paths, args.data, cpu=args.cpu, heads=heads, states=states)
    generation = GenerationConfig(
        beam=args.beam, lenpen=args.lenpen, max_len_a=args.max_len_a, max_len_b=args.max_len_b
    )
    batches = DatasetConfig(max_tokens=args.max_tokens, num_workers=0, data_buffer_size=0)
    cfg = OmegaConf.structured(FairseqConfig(generation=generation, dataset=batches))
    return BeamSearch(loaded, cfg)


def plain_lines(stream: BinaryIO) -> Iterator[str]:
    r"""Yield the lines of a stream, split at ``\n`` only, without line ends and byte order mark."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"line {number}: is not UTF-8 text ({error.reason})") from None


def _alignments(
    engine: "BeamSearch", args: argparse.Namespace, source: Side, target: Side
) -> Callable[[Translation], str]:
    """Return a function that formats a translation's source words, target words and alignment."""
    from diverse_mha.evaluation.aligner import Aligner
    from diverse_mha.evaluation.head_aligner import pharaoh

    aligner = Aligner(engine.loaded, args.data)
    row = aligner.choose("--alignments", args.alignments)
    print(f"aligned by {aligner.candidates[row].describe()}", file=sys.stderr)
    words = source.words()

    def columns(line: Translation) -> str:
        if line.found.tokens is None:
            return "\t\t\t"
        alignment = aligner.pair(line.subwords, line.found.tokens)
        written = words(line.source)
        if len(written) != len(alignment.sources):  # the subword model has other word boundaries
            written = source.unescape(alignment.sources)
        sides = written, target.unescape(alignment.targets)
        return "\t".join(["", *map(" ".join, sides), pharaoh(alignment.links(row))])

    return columns


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha translate``."""
    import_plugin(args.user_dir)
    if args.alignments and os.pathsep in args.checkpoint:
        raise UserError("--alignments: not supported for ensembles; give one checkpoint")
    engine = _open(args)
    source, target = (read_side(args.data, language) for language in engine.languages)
    detokenise = target.detokenise()

    def decode(subwords: list[str]) -> str:
        return detokenise(join_subwords(subwords, target.made.post_process))

    columns = None
    if args.alignments:
        columns = _alignments(cast("BeamSearch", engine), args, source, target)
    if sys.stdin.isatty():
        args.buffer = 1  # interactive: answer each line
    translations = translate(
        engine, plain_lines(sys.stdin.buffer), source.encode(), decode,
        buffer=args.buffer, max_tokens=args.max_tokens,
    )  # fmt: skip
    replaces_blanks = reads_blanks(source.made.method, source.model)
    start, count, blanks = time.monotonic(), 0, []
    cast("io.TextIOWrapper", sys.stdout).reconfigure(encoding="utf-8")
    with terminal_bar(unit=" lines") as bar:
        for count, line in enumerate(translations, 1):
            # Flush after each buffer, so that the next program in a pipe need not wait.
            print(line.text + (columns(line) if columns else ""), flush=count % args.buffer == 0)
            if replaces_blanks and BLANK in line.source:
                blanks.append(count)
            bar.update()
    seconds = time.monotonic() - start
    if blanks:
        print(f"note: {blanks_found(blanks)}", file=sys.stderr)
    print(
        f"{counted(count, 'line')} in {seconds:.1f} s ({count / seconds:.0f} a second)",
        file=sys.stderr,
    )
    return 0
