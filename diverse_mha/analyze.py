"""``diverse-mha analyze``: what became of a checkpoint's heads."""

import argparse
import json
from pathlib import Path

from diverse_mha.analysis.checkpoints import iterate_head_states, load_checkpoint
from diverse_mha.analysis.disagreement import SCORES, STATES, DisagreementMeter

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
    model, task = load_checkpoint(args.checkpoint, args.data, cpu=args.cpu)
    meter = DisagreementMeter()
    states = iterate_head_states(model, task, args.subset, STATES, max_tokens=args.max_tokens)
    for head_states in states:
        meter.update(head_states)
    scores = meter.result()
    print(format_scores(scores, args.subset))
    if args.output:
        write_json(
            Path(args.output),
            {"checkpoint": args.checkpoint, "subset": args.subset, "disagreement": scores},
        )
    return 0


def write_json(path: Path, content: dict) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2) + "\n")
    part.replace(path)


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
