"""Scoring a plain-text test set: ``scripts/evaluate.sh --source FILE --reference FILE``."""

import argparse
import os
import time

from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.corpora.text import read_parallel
from diverse_mha.evaluation.bleu import report
from diverse_mha.evaluation.command_line import evaluation_output
from diverse_mha.evaluation.deploy.translator import Translator, add_batch_arguments


def evaluate_text(args: argparse.Namespace) -> int:
    """Translate ``--source`` as ``diverse-mha translate`` does, and score it.

    Raises:
        UserError: for options that mean something for a subset only, or files that do not fit.
    """
    for name in ("subset", "target_lang", "raw_reference", "tok_reference", "moses_language"):
        if getattr(args, name) is not None:
            raise UserError(f"{flag(name)} {getattr(args, name)}: has no effect with --source")
    if args.post_process != "auto":
        raise UserError(f"--post-process {args.post_process}: has no effect with --source")
    parser = OneLineParser(prog="diverse-mha translate", add_help=False, allow_abbrev=False)
    add_batch_arguments(parser)
    parser.parse_args(args.extra, args)
    source, raw = read_parallel({"--source": args.source, "--reference": args.reference})
    output = evaluation_output(args, args.checkpoint.split(os.pathsep), args.source.name)
    start = time.monotonic()
    translator = Translator(args.checkpoint, args.data, args)
    found = list(translator.translate(source))
    args.seconds = time.monotonic() - start
    args.target_lang = translator.target.language
    args.post_process = translator.target.post_process
    args.lowercase |= translator.target.tokeniser["lowercase"]
    tokenise = translator.target.tokenise()
    translations = [line.tokens for line in found], [line.text for line in found]
    report(args, output, args.source.name, translations, ([*map(tokenise, raw)], raw))
    return 0
