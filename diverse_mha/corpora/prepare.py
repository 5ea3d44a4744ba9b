"""Make a corpus ready for fairseq-train: ``python -m diverse_mha.corpora.prepare CORPUS``."""

import argparse
import dataclasses
import shlex
import textwrap
from collections.abc import Sequence

from diverse_mha.common.arguments import (
    OneLineParser,
    add_from,
    add_number,
    add_out,
    add_workers,
)
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora import subwords
from diverse_mha.corpora.corpus import SPLITS, Corpus
from diverse_mha.corpora.demo import corpus as demo
from diverse_mha.corpora.dry_run import describe_job
from diverse_mha.corpora.job import SAMPLE_SEED, Job
from diverse_mha.corpora.pipeline import prepare
from diverse_mha.corpora.published import PublishedFile
from diverse_mha.corpora.specs import CORPORA

EPILOG = """\
The output folder gets raw/ (as published), tok/ (tokenised), clean/ (filtered
training pairs), bpe/ (subwords, with model and vocabularies) and bin/ (for
fairseq-train). A step that is done is skipped; a step that was interrupted, or
whose options changed, is done again, and so are the steps after it.
"""
SEGMENTED_EPILOG = """\
The output folder gets raw/ and tok/ (valid and test, for scoring), bpe/ (the
published subwords) and bin/ (for fairseq-train). A step that is done is
skipped; a step that was interrupted is done again, and so are those after it.
"""
OWN = "own"


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="diverse-mha prepare",
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
    """Add a corpus with the options that mean something for it, and no others."""
    parser = corpora.add_parser(
        corpus.name,
        prog=f"data-prep/prepare-{corpus.name}.sh",
        help=corpus.about,
        description=textwrap.fill(f"Prepare {corpus.about}.", 78),
        epilog=SEGMENTED_EPILOG if corpus.segmented else EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_out(parser, corpus.name)
    if not corpus.generated:
        _add_source_options(parser, corpus)
    if not corpus.segmented:
        _add_text_options(parser, corpus)
    add_workers(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would be fetched and done, and stop; needs no network",
    )
    if corpus.sample is not None:
        add_number(parser, "sample", corpus.sample, "training pairs to draw at random")
        add_number(parser, "sample-seed", SAMPLE_SEED, "seed of the draw", least=0)
    if corpus.generated:
        demo.add_arguments(parser)
    return parser


def _add_source_options(parser: argparse.ArgumentParser, corpus: Corpus) -> None:
    own = corpus.name == OWN
    instead = "" if own else " instead of downloading it"
    add_from(parser, f"take the corpus from this folder{instead}", required=own)
    if not own:
        parser.add_argument(
            "--unchecked",
            action="store_true",
            help="take files that are not the published ones: their sizes, checksums and "
            "numbers of lines are then not verified, and bin/corpus.json says so",
        )


def _add_text_options(parser: argparse.ArgumentParser, corpus: Corpus) -> None:
    add = parser.add_argument
    names = {"bpe": "subword-nmt's BPE", "sentencepiece": "sentencepiece"}
    names[corpus.subwords] += " (default)"
    add(
        "--subwords",
        choices=subwords.METHODS,
        default=corpus.subwords,
        help=f"how to split words: {' or '.join(names.values())}",
    )
    extent = "for both sides" if corpus.joint_subwords else "for each side"
    add_number(parser, "merges", corpus.merges, f"BPE merges, or sentencepiece pieces, {extent}")
    text = "split up again what a language has fewer than N times; bpe only"
    add_number(parser, "vocabulary-threshold", 0, text, least=0)
    if not corpus.lowercase:
        add("--lowercase", action="store_true", help="lowercase both sides")
    if corpus.joined:
        add(
            "--separate-dictionaries",
            dest="joined",
            action="store_false",
            help="one dictionary per language instead of a joined one",
        )
    elif corpus.joint_subwords:
        add(
            "--joined-dictionary",
            dest="joined",
            action="store_true",
            help="one dictionary for both languages instead of one each",
        )


def _job(args: argparse.Namespace) -> Job:
    corpus = CORPORA.get(args.corpus) or _own_corpus(args.source, args.target)
    if corpus.source == corpus.target:
        raise UserError(f"--source and --target are both {corpus.source}")
    method = getattr(args, "subwords", corpus.subwords)
    if getattr(args, "vocabulary_threshold", 0) and method != "bpe":
        raise UserError("--vocabulary-threshold works with --subwords bpe only")
    unchecked = getattr(args, "unchecked", False)
    job = Job(
        corpus=corpus.unchecked() if unchecked else corpus,
        out=args.out,
        local=getattr(args, "local", None),
        subwords=method,
        merges=getattr(args, "merges", corpus.merges),
        threshold=getattr(args, "vocabulary_threshold", 0),
        lowercase=getattr(args, "lowercase", corpus.lowercase),
        joined=getattr(args, "joined", corpus.joined),
        workers=args.workers,
        sample=getattr(args, "sample", None),
        sample_seed=getattr(args, "sample_seed", SAMPLE_SEED),
        checked=not unchecked,
    )
    if corpus.generated:
        job = dataclasses.replace(job, pairs=args.pairs, seed=args.seed)
    return job


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare the corpus that the command line names."""
    args = _parser().parse_args(argv)
    job = _job(args)
    if not job.checked:
        names = ", ".join(file.name for file in job.corpus.published())
        print(f"unchecked: not verified to be the published files: {names}", flush=True)
    if args.dry_run:
        print(*describe_job(job), sep="\n")
        return
    prepare(job)
    print(f"ready: fairseq-train {shlex.quote(str(args.out / 'bin'))}")


if __name__ == "__main__":
    run_cli(main)
