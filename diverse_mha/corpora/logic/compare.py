"""A generated set beside the published one: ``python -m diverse_mha.corpora.logic.compare FOLDER``.

Prints, as Markdown, the share of each length and of each relation in both sets.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser, add_number
from diverse_mha.common.errors import run_cli
from diverse_mha.corpora.logic.generate import DRAWS, SEED, generate
from diverse_mha.corpora.logic.pairs import Pair, by_length, published_files, read_pairs
from diverse_mha.corpora.logic.relations import RELATIONS


def table(title: str, keys: Sequence, sets: dict[str, Counter]) -> str:
    """Write the shares of several sets, in percent, as a Markdown table."""
    rows = [[title, *(f"{name} | share" for name in sets)]]
    rows.append(["---", *("---: | ---:" for _ in sets)])
    for key in keys:
        shares = (f"{c[key]:,} | {100 * c[key] / c.total():.2f} %" for c in sets.values())
        rows.append([str(key).replace("|", "\\|"), *shares])
    rows.append(["all", *(f"{counts.total():,} |" for counts in sets.values())])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def count(pairs: Iterable[Pair]) -> tuple[Counter, Counter]:
    """Count lengths and relations of the different pairs."""
    sets = by_length(pairs)
    lengths = Counter({length: len(found) for length, found in sets.items()})
    relations = Counter(pair.relation for found in sets.values() for pair in found)
    return lengths, relations


def main(argv: Sequence[str] | None = None) -> None:
    """Print both tables for the folder that the command line names."""
    parser = OneLineParser(
        prog="python -m diverse_mha.corpora.logic.compare",
        description="Print the lengths and relations of the published and of a generated set.",
    )
    parser.add_argument("folder", type=Path, help="folder with train0.gz to train12.gz")
    add_number(parser, "draws", DRAWS, "pairs to draw")
    add_number(parser, "seed", SEED, "seed of the pairs", least=0)
    args = parser.parse_args(argv)
    files = published_files(args.folder)
    published = count(pair for path in files for _, pair in read_pairs(path))
    generated = count(generate(args.draws, args.seed))
    names = ("published", "generated")
    for title, keys, number in (
        ("operators", range(len(published[0])), 0),
        ("relation", RELATIONS, 1),
    ):
        sets = dict(zip(names, (published[number], generated[number]), strict=True))
        print(table(title, keys, sets), end="\n\n")


if __name__ == "__main__":
    run_cli(main)
