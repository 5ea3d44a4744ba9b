"""Make text ready for a language model: ``python -m diverse_mha.corpora.prepare_lm CORPUS``."""

import argparse
import shlex
from collections.abc import Sequence

from diverse_mha.common.arguments import (
    OneLineParser,
    add_from,
    add_number,
    add_out,
    add_workers,
)
from diverse_mha.common.errors import run_cli
from diverse_mha.corpora.language_model import TextJob, prepare
from diverse_mha.corpora.running_text import TEXT_CORPORA, TextCorpus, own_corpus

EPILOG = """\
The output folder gets raw/ (train.txt, valid.txt, test.txt as published) and bin/
(for fairseq-train --task diverse_language_modeling). A step that is done is
skipped; a step that was interrupted, or whose options changed, is done again.
"""


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="diverse-mha prepare-lm",
        allow_abbrev=False,
        description="Fetch, check and binarise text for a language model of fairseq-train.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    corpora = parser.add_subparsers(
        dest="corpus", required=True, metavar="CORPUS", title="corpora (CORPUS --help has more)"
    )
    for corpus in TEXT_CORPORA.values():
        _add_corpus(corpora, corpus)
    own = _add_corpus(corpora, own_corpus())
    add_number(own, "min-count", None, "rarer words in train.txt become <unk> (none)")
    return parser


def _add_corpus(corpora: argparse._SubParsersAction, corpus: TextCorpus) -> argparse.ArgumentParser:
    own = corpus.name not in TEXT_CORPORA
    name = "own-text" if own else corpus.name  # own is one's own translations
    parser = corpora.add_parser(
        corpus.name,
        prog=f"data-prep/prepare-{name}.sh",
        allow_abbrev=False,
        help=corpus.about,
        description=f"Prepare {corpus.about}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_out(parser, name)
    names = ", ".join(f"{split}.txt" for split in corpus.files)
    source = corpus.archive.name if corpus.archive else f"{names}, plain or .gz"
    instead = "" if own else " instead of downloading it"
    add_from(parser, f"take the text from this folder ({source}){instead}", required=own)
    add_workers(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare the corpus that the command line names."""
    args = _parser().parse_args(argv)
    job = TextJob(
        corpus=TEXT_CORPORA.get(args.corpus) or own_corpus(),
        out=args.out,
        local=args.local,
        min_count=getattr(args, "min_count", None) or 0,
        workers=args.workers,
    )
    prepare(job)
    print(f"ready: {shlex.quote(str(args.out / 'bin'))}, for --task diverse_language_modeling")


if __name__ == "__main__":
    run_cli(main)
