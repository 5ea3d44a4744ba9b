"""Make a corpus ready for fairseq-train: ``python -m diverse_mha.corpora.prepare CORPUS``."""

import argparse
import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from diverse_mha.corpora import subwords
from diverse_mha.corpora.demo import corpus as demo
from diverse_mha.corpora.parallel_map import available_cores
from diverse_mha.corpora.pipeline import Job, prepare
from diverse_mha.corpora.published import PublishedFile
from diverse_mha.corpora.specs import CORPORA, SPLITS, Corpus
from diverse_mha.errors import UserError, run_cli

EPILOG = """\
The output folder gets raw/ (as published), tok/ (tokenised), clean/ (filtered
training pairs), bpe/ (subwords, with model and vocabularies) and bin/ (for
fairseq-train). A step that is done is skipped; a step that was interrupted, or
whose options changed, is done again, and so are the steps after it.
"""
OWN = "own"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others of the commands."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


def _at_least(minimum: int):
    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {minimum} up")
        return value

    return integer


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="prepare",
        description="Fetch, tokenise, filter, segment and binarise a corpus for fairseq-train.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    corpora = parser.add_subparsers(
        dest="corpus", required=True, metavar="CORPUS", title="corpora (CORPUS --help has more)"
    )
    for corpus in CORPORA.values():
        _add_corpus(corpora, corpus)
    own = _add_corpus(corpora, _own_corpus("SOURCE", "TARGET"))
    own.add_argument("--source", required=True, metavar="LANG", help="source language, as in de")
    own.add_argument("--target", required=True, metavar="LANG", help="target language, as in en")
    return parser


def _own_corpus(source: str, target: str) -> Corpus:
    def pair(split: str) -> tuple[PublishedFile, PublishedFile]:
        return PublishedFile(f"{split}.{source}"), PublishedFile(f"{split}.{target}")

    return Corpus(
        name=OWN,
        about="your own corpus: a folder with train, valid and test as plain text, one sentence "
        "a line, each in two files such as train.de and train.en",
        source=source,
        target=target,
        files={split: (pair(split),) for split in SPLITS},
    )


def _add_corpus(corpora: argparse._SubParsersAction, corpus: Corpus) -> argparse.ArgumentParser:
    parser = corpora.add_parser(
        corpus.name,
        help=corpus.about,
        description=f"Prepare {corpus.about}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FOLDER", help="where all output goes")
    if not corpus.generated:
        add(
            "--from",
            type=Path,
            dest="local",
            metavar="FOLDER",
            required=corpus.name == OWN,
            help="take the corpus from this folder"
            + ("" if corpus.name == OWN else " instead of downloading it"),
        )
    add(
        "--subwords",
        choices=subwords.METHODS,
        default="bpe",
        help="how to split words: subword-nmt's BPE (default) or sentencepiece",
    )
    add(
        "--merges",
        type=_at_least(1),
        default=corpus.merges,
        metavar="N",
        help=f"BPE merges, or sentencepiece pieces, for both sides ({corpus.merges})",
    )
    add(
        "--vocabulary-threshold",
        type=_at_least(0),
        default=0,
        metavar="N",
        help="split up again what a language has fewer than N times; bpe only (0: nothing)",
    )
    add(
        "--lowercase",
        action="store_true",
        default=corpus.lowercase,
        help="lowercase both sides" + (" (always done here)" if corpus.lowercase else ""),
    )
    add(
        "--separate-dictionaries",
        action="store_true",
        help="one dictionary per language instead of a joined one",
    )
    add(
        "--workers",
        type=_at_least(1),
        default=available_cores(),
        metavar="N",
        help="processes (all cores)",
    )
    if corpus.generated:
        add(
            "--pairs",
            type=_at_least(20),
            default=demo.PAIRS,
            metavar="N",
            help=f"training pairs; valid and test get a twentieth each ({demo.PAIRS})",
        )
        add(
            "--seed",
            type=_at_least(0),
            default=demo.SEED,
            metavar="N",
            help=f"seed of the sentences ({demo.SEED})",
        )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare the corpus that the command line names."""
    args = _parser().parse_args(argv)
    corpus = CORPORA.get(args.corpus) or _own_corpus(args.source, args.target)
    if corpus.source == corpus.target:
        raise UserError(f"--source and --target are both {corpus.source}")
    if args.vocabulary_threshold and args.subwords != "bpe":
        raise UserError("--vocabulary-threshold works with --subwords bpe only")
    job = Job(
        corpus=corpus,
        out=args.out,
        local=getattr(args, "local", None),
        subwords=args.subwords,
        merges=args.merges,
        threshold=args.vocabulary_threshold,
        lowercase=args.lowercase,
        joined=not args.separate_dictionaries,
        workers=args.workers,
    )
    if corpus.generated:
        job = dataclasses.replace(job, pairs=args.pairs, seed=args.seed)
    prepare(job)
    print(f"ready: fairseq-train {shlex.quote(str(args.out / 'bin'))}")


if __name__ == "__main__":
    run_cli(main)
