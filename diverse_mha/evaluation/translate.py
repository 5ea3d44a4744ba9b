"""``diverse-mha translate``: translates plain text from standard input with one or more models."""

import argparse
import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import diverse_mha
from diverse_mha.common.errors import UserError, add_cpu, add_number
from diverse_mha.common.files import check_checkpoint, check_data_folder
from diverse_mha.common.plugins import add_user_dir, import_plugin
from diverse_mha.common.progress import counted, hide_log, terminal_bar
from diverse_mha.common.ranges import between
from diverse_mha.corpora.prepared import preparation, read_side
from diverse_mha.corpora.subwords import BLANK, blanks_found, join_subwords, reads_blanks
from diverse_mha.evaluation.ctranslate2_engine import Search, open_engine

if TYPE_CHECKING:
    from torch import Tensor


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
    source: str = ""  # the input line
    subwords: str = ""  # subwords of the source
    pair: tuple["Tensor", "Tensor"] | None = None  # source and target ids; None: empty, CTranslate2


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


class Translator:
    """Translates plain text with a model or an ensemble."""

    def __init__(self, checkpoint: str, data: str | Path, options: argparse.Namespace):
        hide_log()
        for path in checkpoint.split(os.pathsep):
            check_checkpoint(path)
        check_data_folder(str(data))
        preparation(Path(data))  # refuse a damaged corpus.json before the engine prints its note
        self._options = options
        self._settings = Search(options.beam, options.lenpen, options.max_len_b, options.max_tokens)
        refused = "--alignments" if options.alignments else "--max-len-a"
        refused = refused if options.alignments or options.max_len_a else ""
        self._engine = open_engine(
            options.engine, checkpoint, data, cpu=options.cpu, search=self._settings,
            refused=f"CTranslate2 does not support {refused}" if refused else "",
        )  # fmt: skip
        if self._engine is None:
            languages = self._open_fairseq(checkpoint, data)
            self._longest = self._loaded.longest[0]
        else:
            languages = self._engine.languages
            self._longest = self._engine.longest_source + 1  # including eos
        self.sides = source, target = tuple(read_side(data, language) for language in languages)
        self._encode, self._plain = source.encode(), target.detokenise()
        self._post_process = target.made.post_process
        self._reads_blanks = reads_blanks(source.made.method, source.model)
        self.blanks: list[int] = []  # numbers of the lines whose U+2581 the model reads as a blank

    def _open_fairseq(self, checkpoint: str, data: str | Path) -> tuple[str, str]:
        """Open the model or ensemble and fairseq's search; return the languages."""
        diverse_mha.register()
        from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
        from omegaconf import OmegaConf

        from diverse_mha.evaluation.equal_weights import note_equal_weights
        from diverse_mha.evaluation.models import open_models
        from diverse_mha.evaluation.search import BeamSearch
        from diverse_mha.evaluation.states import check_translates, languages_of, open_state

        paths = checkpoint.split(os.pathsep)
        states = {path: open_state(path) for path in paths}
        for path, state in states.items():
            check_translates(path, state)
        note_equal_weights(paths, "the ensemble", states.__getitem__)
        options = self._options
        self._loaded = open_models(paths, data, cpu=options.cpu, states=states)
        generation = GenerationConfig(
            beam=options.beam,
            lenpen=options.lenpen,
            max_len_a=options.max_len_a,
            max_len_b=options.max_len_b,
        )
        cfg = OmegaConf.structured(FairseqConfig(generation=generation))
        self._beam_search = BeamSearch(self._loaded, cfg)
        return languages_of(states[paths[0]], data)

    def translate(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Yield the translations of lines of plain text in order; an empty line stays empty."""
        lines, start = iter(lines), 0
        while portion := list(islice(lines, self._options.buffer)):
            yield from self._portion(portion, start)
            start += len(portion)

    def _portion(self, lines: Sequence[str], start: int) -> list[Translation]:
        encoded = [self._encode(line) for line in lines]
        if self._reads_blanks:
            self.blanks += [start + n for n, line in enumerate(lines, 1) if BLANK in line]
        filled = [index for index, words in enumerate(encoded) if words.strip()]
        batch = self._options.max_tokens
        for index in filled:
            length = len(encoded[index].split()) + 1
            line = f"line {start + index + 1}: {length:,} subwords"
            if length > self._longest:
                most = f"but the model reads at most {self._longest:,}"
                raise UserError(f"{line}, {most}; split the line")
            if length > batch:
                raise UserError(f"{line}, more than --max-tokens {batch:,}; give {length} or more")
        translations = [Translation(self._plain(""))] * len(lines)
        results = self._search([encoded[index] for index in filled]) if filled else []
        for index, (joined, pair) in zip(filled, results, strict=True):
            translations[index] = Translation(
                self._plain(joined), lines[index], encoded[index], pair
            )
        return translations

    def _search(self, encoded: list[str]) -> Iterator[tuple[str, "tuple[Tensor, Tensor] | None"]]:
        """Yield each sentence's translation, with subwords joined, and the token ids.

        Token ids are those of source and target with fairseq, and None with CTranslate2.
        """
        if self._engine is not None:
            sentences = [words.split() for words in encoded]
            for best, _ in self._engine.translate(sentences, self._settings):
                yield join_subwords(best, self._post_process), None
            return
        task = self._loaded.task
        sources, lengths = task.get_interactive_tokens_and_lengths(encoded, lambda line: line)
        batches = task.get_batch_iterator(
            task.build_dataset_for_inference(sources, lengths),
            max_tokens=self._options.max_tokens,
            max_positions=self._loaded.longest,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=False)
        found = dict(self._beam_search.translate(map(self._loaded.on_device, batches)))
        for number, source in enumerate(sources):
            text = self._beam_search.text(found[number], self._post_process)
            yield text, (source, found[number])


def plain_lines(stream: BinaryIO) -> Iterator[str]:
    r"""Yield the lines of a stream, split at ``\n`` only, without line ends and byte order mark."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"line {number}: is not UTF-8 text ({error.reason})") from None


def _alignments(args: argparse.Namespace, translator: Translator) -> Callable[[Translation], str]:
    """Return a function that formats a translation's source words, target words and alignment."""
    from diverse_mha.evaluation.aligner import Aligner
    from diverse_mha.evaluation.head_aligner import pharaoh
    from diverse_mha.evaluation.models import open_models

    if os.pathsep in args.checkpoint:
        raise UserError("--alignments: not supported for ensembles; give one checkpoint")
    aligner = Aligner(open_models(args.checkpoint, args.data, cpu=args.cpu, heads=True), args.data)
    row = aligner.choose("--alignments", args.alignments)
    print(f"aligned by {aligner.candidates[row].describe()}", file=sys.stderr)

    source, target = translator.sides
    words = source.words()

    def columns(line: Translation) -> str:
        if line.pair is None:
            return "\t\t\t"
        alignment = aligner.pair(*line.pair, line.subwords.split())
        written = words(line.source)
        if len(written) != len(alignment.sources):  # the subword model has other word boundaries
            written = source.unescape(alignment.sources)
        sides = written, target.unescape(alignment.targets)
        return "\t".join(["", *map(" ".join, sides), pharaoh(alignment.links(row))])

    return columns


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha translate``."""
    import_plugin(args.user_dir)
    translator = Translator(args.checkpoint, args.data, args)
    columns = _alignments(args, translator) if args.alignments else lambda _: ""
    if sys.stdin.isatty():
        args.buffer = 1  # interactive: answer each line
    start, count = time.monotonic(), 0
    cast("io.TextIOWrapper", sys.stdout).reconfigure(encoding="utf-8")
    with terminal_bar(unit=" lines") as bar:
        for count, line in enumerate(translator.translate(plain_lines(sys.stdin.buffer)), 1):  # noqa: B007
            # Flush after each buffer, so that the next program in a pipe need not wait.
            print(line.text + columns(line), flush=count % args.buffer == 0)
            bar.update()
    seconds = time.monotonic() - start
    if translator.blanks:
        print(f"note: {blanks_found(translator.blanks)}", file=sys.stderr)
    print(
        f"{counted(count, 'line')} in {seconds:.1f} s ({count / seconds:.0f} a second)",
        file=sys.stderr,
    )
    return 0
