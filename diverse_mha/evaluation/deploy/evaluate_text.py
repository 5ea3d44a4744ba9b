"""Scoring a plain-text test set: ``scripts/evaluate.sh --source FILE --reference FILE``."""

import argparse
import os
import time
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.common.places import check_file
from diverse_mha.corpora.text import read_lines
from diverse_mha.evaluation.bleu import report
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
    source = _lines("--source", args.source)
    raw = _lines("--reference", args.reference)
    if len(source) != len(raw):
        raise UserError(
            f"--source has {len(source)} lines, --reference {len(raw)}; "
            "line n of one must be the translation of line n of the other"
        )
    first = Path(args.checkpoint.split(os.pathsep)[0])
    output = args.output or first.with_name(f"{first.stem}.{args.source.name}.json")
    if output.suffix != ".json":
        raise UserError(f"--output {output}: must end in .json")
    check_file("--output", output)
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


def _lines(option: str, path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(f"{option} {path}: no such file; check the name")
    lines = list(read_lines(path))
    if not lines:
        raise UserError(f"{option} {path}: is empty; give a text with one sentence a line")
    return lines
