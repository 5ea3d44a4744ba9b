"""``diverse-mha analyze``: what became of a checkpoint's heads."""

import argparse
from pathlib import Path

from diverse_mha.analysis.checkpoints import iterate_head_states, load_checkpoint
from diverse_mha.analysis.disagreement import SCORES, STATES, DisagreementMeter
from diverse_mha.files import write_json

COMPONENT_ORDER = ("encoder", "cross", "decoder")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.add_argument("checkpoint", help="checkpoint file of one of this package's models")
    parser.add_argument("data", help="folder that fairseq-preprocess wrote")
    parser.add_argument("--subset", default="valid", help="split to run (default: valid)")
    parser.add_argument(
        "--max-tokens", type=int, default=4000, help="tokens in a batch (default: 4000)"
    )
    parser.add_argument("--output", metavar="FILE", help="also write the scores as JSON")
    parser.add_argument("--cpu", action="store_true", help="stay on the CPU")


def run(args: argparse.Namespace) -> int:
    """Print the disagreement scores of every component and layer."""
    scores = score_checkpoint(
        args.checkpoint, args.data, args.subset, max_tokens=args.max_tokens, cpu=args.cpu
    )
    print(format_scores(scores, args.subset))
    if args.output:
        write_json(
            Path(args.output),
            {"checkpoint": args.checkpoint, "subset": args.subset, "disagreement": scores},
        )
    return 0


def score_checkpoint(
    checkpoint: str, data: str, subset: str, *, max_tokens: int = 4000, cpu: bool = False
) -> dict[str, dict[str, dict]]:
    """Run a split through a checkpoint; the result is that of ``DisagreementMeter``."""
    model, task = load_checkpoint(checkpoint, data, cpu=cpu)
    meter = DisagreementMeter()
    for head_states in iterate_head_states(model, task, subset, STATES, max_tokens=max_tokens):
        meter.update(head_states)
    return meter.result()


def format_scores(scores: dict, subset: str) -> str:
    """Lay out the scores as a table for a terminal."""
    lines = [
        f"exp(D) over {subset!r}, 0 to 1, higher = heads differ more (Li et al. 2018, Table 4)",
        f"{'component':<12}{'layer':<7}" + "".join(f"{name:>10}" for name in SCORES),
    ]
    for component in (c for c in COMPONENT_ORDER if c in scores):
        rows = [("all", [scores[component][s]["all"] for s in SCORES])]
        per_layer = zip(*(scores[component][s]["layers"] for s in SCORES), strict=True)
        rows += [(str(number), list(row)) for number, row in enumerate(per_layer, start=1)]
        for label, row in rows:
            name = component if label == "all" else ""
            lines.append(f"{name:<12}{label:<7}" + "".join(f"{value:>10.3f}" for value in row))
    return "\n".join(lines)
