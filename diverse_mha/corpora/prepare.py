"""Make a corpus ready for fairseq-train: ``diverse-mha prepare`` and ``diverse-mha prepare-lm``."""

import argparse
import re
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import filterfalse
from pathlib import Path

from diverse_mha.common.arguments import (
    OneLineParser,
    add_from,
    add_number,
    add_out,
    between,
    called,
)
from diverse_mha.common.errors import UserError
from diverse_mha.common.machine import cores
from diverse_mha.corpora import subwords
from diverse_mha.corpora.catalogue import CORPORA, OWN, own_corpus, own_text
from diverse_mha.corpora.corpus import Corpus, Job
from diverse_mha.corpora.dry_run import describe_job
from diverse_mha.corpora.earlier import continued
from diverse_mha.corpora.letters import FORMS
from diverse_mha.corpora.pipeline import prepare
from diverse_mha.corpora.text import has_rules

EPILOG = """\
The output folder gets raw/ (as published), tok/ (tokenised), clean/ (filtered
training pairs), bpe/ (subwords, with model and vocabularies) and bin/ (for
fairseq-train). A step that is done is skipped; a step that was interrupted is
done again, and so are the steps after it. Another finished corpus in the folder
is replaced with --force only.
"""
SEGMENTED_EPILOG = """\
The output folder gets raw/ and tok/ (valid and test, for scoring), bpe/ (the
published subwords) and bin/ (for fairseq-train). A step that is done is
skipped; a step that was interrupted is done again, and so are those after it.
Another finished corpus in the folder is replaced with --force only.
"""
TEXT_EPILOG = """\
The output folder gets raw/ (train.txt, valid.txt, test.txt as published) and bin/
(for fairseq-train --task diverse_language_modeling). A step that is done is
skipped; a step that was interrupted is done again. Another finished corpus in the
folder is replaced with --force only.
"""


def _parser(running_text: bool) -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=f"diverse-mha {'prepare-lm' if running_text else 'prepare'}",
        description="Fetch, check and binarise text for a language model of fairseq-train."
        if running_text
        else "Fetch, tokenise, filter, segment and binarise a corpus for fairseq-train.",
        epilog=TEXT_EPILOG if running_text else EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    corpora = parser.add_subparsers(
        dest="corpus", required=True, metavar="CORPUS", title="corpora (CORPUS --help has more)"
    )
    for corpus in CORPORA.values():
        if corpus.running_text == running_text:
            _add_corpus(corpora, corpus)
    own = _add_corpus(corpora, own_text() if running_text else own_corpus("SOURCE", "TARGET"))
    if running_text:
        add_number(own, "min-count", None, "rarer words in train.txt become <unk> (none)")
    else:
        _add_own_options(own)
    return parser


def _add_corpus(corpora: argparse._SubParsersAction, corpus: Corpus) -> argparse.ArgumentParser:
    """Add a corpus with the options that mean something for it, and no others.

    An option that is called like an attribute of :class:`Corpus` changes that.
    """
    own = corpus.name == OWN
    name = "own-text" if own and corpus.running_text else corpus.name
    epilog = SEGMENTED_EPILOG if corpus.segmented else EPILOG
    parser = corpora.add_parser(
        corpus.name,
        prog=called(
            f"{'prepare-lm' if corpus.running_text else 'prepare'} {corpus.name}",
            f"data-prep/prepare-{name}.sh",
        ),
        help=corpus.about,
        description=textwrap.fill(f"Prepare {corpus.about}.", 78),
        epilog=TEXT_EPILOG if corpus.running_text else epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_out(parser, name)
    if not corpus.generated:
        names = ", ".join(file.name for file in corpus.published())
        what = (
            f"the text from this folder ({names})"
            if corpus.running_text
            else "the corpus from this folder"
        )
        instead = "" if own else " instead of downloading it"
        add_from(parser, f"take {what}{instead}", required=own)
    if not corpus.generated and not own:
        parser.add_argument(
            "--unchecked",
            action="store_true",
            help="take files that are not the published ones: their sizes, checksums and "
            "numbers of lines are then not verified, and bin/corpus.json says so",
        )
    if not corpus.segmented and not corpus.running_text:
        _add_text_options(parser, corpus)
    add_number(parser, "workers", cores(), "processes; default: all cores")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would be fetched and done, and stop; needs no network",
    )
    if corpus.sample is not None:
        add_number(parser, "sample", corpus.sample, "training pairs to draw at random")
        add_number(parser, "sample-seed", corpus.sample_seed, "seed of the draw", least=0)
    if corpus.generated:
        text = "training pairs; valid and test get a twentieth each"
        add_number(parser, "pairs", corpus.pairs, text, least=20)
        add_number(parser, "seed", corpus.seed, "seed of the sentences", least=0)
    return parser


def _add_own_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    for side, code in (("source", "de"), ("target", "en")):
        text = f"{side} language, as in {code}"
        add(f"--{side}", required=True, metavar="LANG", help=text)
    add(
        "--tokeniser",
        choices=("moses", "none"),
        help="moses (default; jieba for Chinese), or none: sentencepiece alone cuts the text",
    )
    add(
        "--normal-form",
        choices=FORMS,
        help="Unicode's normal form that text gets first (NFC); none leaves it as it is",
    )
    text = "segment as this earlier prepared corpus, as fine-tuning of its models needs"
    add("--subwords-from", type=Path, metavar="FOLDER", help=text)
    text = "take the dictionaries of this earlier prepared corpus; fine-tuning needs both"
    add("--dictionary-from", type=Path, metavar="FOLDER", help=text)


def _add_text_options(parser: argparse.ArgumentParser, corpus: Corpus) -> None:
    """Declare the rules for text; those that are not given are None."""
    add = parser.add_argument
    names = {"bpe": "subword-nmt's BPE", "sentencepiece": "sentencepiece"}
    names[corpus.subwords] += " (default)"
    text = f"how to split words: {' or '.join(names.values())}"
    add("--subwords", choices=subwords.METHODS, help=text)
    extent = "for both sides" if corpus.joint_subwords else "for each side"
    text = f"BPE merges, or sentencepiece pieces, {extent} ({corpus.merges})"
    add_number(parser, "merges", None, text)
    text = "split up again what a language has fewer than N times; bpe only (0)"
    add_number(parser, "vocabulary-threshold", None, text, least=0)
    text = f"longest training sentence to keep, in words ({corpus.max_length})"
    add_number(parser, "max-length", None, text)
    text = f"largest ratio of the lengths of both sides in training ({corpus.max_ratio:g})"
    add("--max-ratio", type=between(1, 1000), metavar="X", help=text)
    if not corpus.lowercase:
        add("--lowercase", action="store_true", default=None, help="lowercase both sides")
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


def _job(args: argparse.Namespace, running_text: bool) -> Job:
    own = args.corpus == OWN and not running_text
    if args.corpus != OWN:
        corpus = CORPORA[args.corpus]
    elif running_text:
        corpus = own_text()
    else:
        for option in ("source", "target"):
            if not re.fullmatch(r"[^\s./-][^\s./]*", code := getattr(args, option)):
                raise UserError(f"--{option} {code!r} is no language's code; give one, as in de")
        corpus = own_corpus(args.source, args.target)
    if len(set(corpus.languages)) < len(corpus.languages):
        raise UserError(f"--source and --target are both {args.source}")
    given = {name: value for name, value in vars(args).items() if value is not None}
    corpus = replace(corpus, **{f.name: given[f.name] for f in fields(Corpus) if f.name in given})
    if given.get("tokeniser") == "none":
        if given.get("subwords") == "bpe":
            raise UserError("--subwords bpe needs tokens; give --subwords sentencepiece, or none")
        corpus = replace(corpus, subwords="sentencepiece", normalise=False, whole_letters=False)
    if corpus.vocabulary_threshold and corpus.subwords != "bpe":
        raise UserError("--vocabulary-threshold works with --subwords bpe only")
    if given.get("unchecked"):
        corpus = corpus.unchecked()
    job = Job(corpus, args.out, given.get("local"), args.workers, args.force)
    return continued(job, given) if own else job


def main(argv: Sequence[str] | None = None, *, running_text: bool = False) -> None:
    """Prepare the corpus, or the text for a language model, that the command line names."""
    args = _parser(running_text).parse_args(argv)
    job = _job(args, running_text)
    if not job.corpus.checked:
        names = ", ".join(file.name for file in job.corpus.published())
        print(f"unchecked: not verified to be the published files: {names}", flush=True)
    if args.corpus == OWN and not running_text and job.corpus.tokeniser == "moses":
        for code in filterfalse(has_rules, job.corpus.tokeniser_languages):
            print(f"note: no rules for {code}; those of English are used", flush=True)
    if args.dry_run:
        print(*describe_job(job), sep="\n")
        return
    prepare(job)
    more = " --task diverse_language_modeling" if running_text else ""
    if any("-" in language for language in job.corpus.languages):
        # fairseq would look for them in the names of the files, and part those at the hyphens.
        more = " --source-lang {} --target-lang {}".format(*job.corpus.languages)
    print(f"ready: fairseq-train {shlex.quote(str(args.out / 'bin'))}{more}")
