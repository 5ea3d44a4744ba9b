"""Write the demo corpus as plain text: ``python -m diverse_mha.corpora.demo FOLDER``."""

from pathlib import Path

from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli
from diverse_mha.common.places import check_folder
from diverse_mha.corpora.demo.corpus import add_arguments, write_corpus


def main() -> None:
    """Write the corpus that the command line asks for."""
    parser = OneLineParser(
        prog="python -m diverse_mha.corpora.demo",
        description="Write the demo corpus (Lumi to Qorun, two invented languages) as plain "
        "text: train, valid and test, each in two files.",
    )
    parser.add_argument("out", type=Path, metavar="FOLDER", help="where the six files go")
    add_arguments(parser)
    args = parser.parse_args()
    check_folder("FOLDER", args.out)
    counts = write_corpus(args.out, pairs=args.pairs, seed=args.seed)
    print(", ".join(f"{count:,} {split}" for split, count in counts.items()), "pairs")


if __name__ == "__main__":
    run_cli(main)
