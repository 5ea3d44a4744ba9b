"""Prints the final table of ``scripts/quickstart.sh``: BLEU, and similarity of the heads."""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from diverse_mha.analysis.analyze import analyze
from diverse_mha.analysis.sites import Selection
from diverse_mha.attention.core import COMPONENTS
from diverse_mha.common.errors import OneLineParser, run_cli
from diverse_mha.common.files import read_json, write_json
from diverse_mha.common.progress import hide_log
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.evaluation.opener import open_heads


def heads_alike(checkpoint: str, data: str, subset: str) -> dict[str, float]:
    """Return each component's linear CKA of head outputs, averaged over head pairs and layers."""
    selection = Selection(measures=("cka",), subset=subset)
    (model,) = open_heads([checkpoint], data)
    components = analyze(model, selection).result.components
    return {
        name: fmean(
            cka.mean
            for layer in component.layers.values()
            if (cka := layer.get("cka")) is not None and cka.mean is not None
        )
        for name, component in components.items()
    }


def table(rows: dict[str, dict]) -> Layout:
    """Lay out the results of several models; ``heads`` in a row is a result of ``heads_alike``."""
    return Layout(
        "BLEU, and CKA of the heads' outputs",
        ("", "tokenised BLEU", "sacreBLEU", *(f"CKA {name}" for name in COMPONENTS)),
        tuple(
            (name, f"{row['tokenised_bleu']:.2f}", f"{row['sacrebleu']:.2f}")
            + tuple(f"{row['heads'][component]:.3f}" for component in COMPONENTS)
            for name, row in rows.items()
        ),
        (
            "CKA: 1 if two heads' outputs are equal up to rotation and scale, 0 if unrelated.",
            "One seed on a toy corpus: shows what HSIC does to heads, not whether it raises BLEU.",
        ),
    )


def main(words: Sequence[str]) -> int:
    """Print the table; similarities are cached in a file beside each evaluation."""
    parser = OneLineParser(prog="diverse_mha.training.quickstart", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "evaluations", nargs="+", metavar="NAME=FILE.json", help="result of scripts/evaluate.sh"
    )
    args = parser.parse_args(words)
    hide_log("")
    rows = {}
    for word in args.evaluations:
        name, _, file = word.rpartition("=")
        row = read_json(Path(file), "evaluate again")
        cache = Path(file).with_suffix(".cka.json")
        if not cache.exists() or cache.stat().st_mtime < Path(file).stat().st_mtime:
            write_json(cache, heads_alike(row["checkpoint"], str(args.data), row["subset"]))
        rows[name] = row | {"heads": read_json(cache, "delete it")}
    print(to_text(table(rows)))
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
