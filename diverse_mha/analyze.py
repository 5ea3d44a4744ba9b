"""``diverse-mha analyze``: how much the heads of checkpoints differ."""

import argparse
import json
import logging
from pathlib import Path

from diverse_mha.analysis.checkpoints import Loaded, head_states, iterate_batches, load
from diverse_mha.analysis.collect import (
    COMPONENT_ORDER,
    HeadsMeter,
    Selection,
    check_selection,
    parse_layers,
    parse_names,
)
from diverse_mha.analysis.meters import DEFAULT_MEASURES, MEASURES
from diverse_mha.analysis.names import short_names
from diverse_mha.analysis.similarity import THRESHOLD, check_threshold
from diverse_mha.analysis.tables import format_tables
from diverse_mha.errors import UserError
from diverse_mha.files import write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.add_argument(
        "checkpoints",
        nargs="+",
        metavar="CHECKPOINT",
        help="checkpoint files: models of this package, or fairseq's transformer, transformer_lm",
    )
    parser.add_argument("data", metavar="DATA", help="folder that fairseq-preprocess wrote")
    parser.add_argument("--subset", default="valid", help="split to run (default: valid)")
    parser.add_argument(
        "--measures",
        default=",".join(DEFAULT_MEASURES),
        help=f"comma list of {', '.join(MEASURES)} (default: %(default)s)",
    )
    parser.add_argument(
        "--components", help="comma list of encoder, cross, decoder (default: all there are)"
    )
    parser.add_argument(
        "--layers", default="all", help="all, last, or numbers from 1 such as 1,3 (default: all)"
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=THRESHOLD,
        help="share of the variance that SVCCA keeps (default: %(default)s)",
    )
    parser.add_argument(
        "--max-tokens", type=int, default=4000, help="tokens in a batch (default: 4000)"
    )
    parser.add_argument(
        "--output", metavar="FILE.json", help="also write every pair and layer as JSON"
    )
    parser.add_argument("--json", action="store_true", help="print that JSON instead of tables")
    parser.add_argument("--cpu", action="store_true", help="stay on the CPU")


def run(args: argparse.Namespace) -> int:
    """Print the similarities of every component and layer of every checkpoint."""
    selection = read_selection(args)
    logging.getLogger().setLevel(logging.WARNING)  # fairseq tells of every file it opens
    models = open_models(args.checkpoints, args.data, args.subset, selection, args)
    names = short_names(args.checkpoints)
    results = [
        {"name": name, **analyze(loaded, args.subset, selection, args.max_tokens, name)}
        for name, loaded in zip(names, models, strict=True)
    ]
    content = {"subset": args.subset, "data": args.data, "models": results}
    if args.json:
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(format_tables(results, args.subset))
    if args.output:
        write_json(Path(args.output), content)
    return 0


def read_selection(args: argparse.Namespace) -> Selection:
    """Check the options that say what to look at.

    Raises:
        UserError: for an unknown name or an impossible number.
    """
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens {args.max_tokens}: must be at least 1")
    try:
        check_threshold(args.threshold)
    except ValueError as error:
        raise UserError(f"--{error}") from error
    components = args.components and parse_names("--components", args.components, COMPONENT_ORDER)
    return Selection(
        components or None,
        parse_layers(args.layers),
        parse_names("--measures", args.measures, tuple(MEASURES)),
        args.threshold,
    )


def open_models(
    paths: list[str], data: str, subset: str, selection: Selection, args: argparse.Namespace
) -> list[Loaded]:
    """Load every model and check on its first batch that it has what is asked for."""
    models = []
    for path in paths:
        loaded = load(path, data, cpu=args.cpu)
        sample = next(iterate_batches(loaded, subset, max_tokens=args.max_tokens))
        states = head_states(loaded.model, sample, ("outputs",))
        depths = {component: len(layers) for component, layers in states.items()}
        check_selection(selection, depths, path)
        models.append(loaded)
    return models


def analyze(
    loaded: Loaded, subset: str, selection: Selection, max_tokens: int = 4000, label: str = ""
) -> dict:
    """Run a split through a model.

    Returns:
        The checkpoint, its architecture, the number of sentences, and what
        ``HeadsMeter.result`` returns.
    """
    meter, sentences = HeadsMeter(selection), 0
    for sample in iterate_batches(loaded, subset, max_tokens=max_tokens, label=label):
        meter.update(head_states(loaded.model, sample, selection.states))
        sentences += len(sample["id"])
    return {
        "checkpoint": loaded.path,
        "architecture": loaded.architecture,
        "sentences": sentences,
        **meter.result(),
    }


def score_checkpoint(
    checkpoint: str, data: str, subset: str, *, max_tokens: int = 4000, cpu: bool = False
) -> dict[str, dict[str, dict]]:
    """Run a split through a checkpoint; the result is that of ``DisagreementMeter``."""
    loaded = load(checkpoint, data, cpu=cpu)
    selection = Selection(measures=("disagreement",))
    return analyze(loaded, subset, selection, max_tokens)["disagreement"]
