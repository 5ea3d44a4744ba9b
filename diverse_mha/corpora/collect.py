"""Extracts sentences from downloaded files and joins them into one file for each side of a split.

``python -m diverse_mha.corpora.collect --markup M --to A B --from A1 B1 A2 B2 ...``
"""

import argparse
from contextlib import ExitStack

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.markup import READERS
from diverse_mha.corpora.text import read_lines


def main() -> None:
    """Append the sentences of each file to the output of its side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markup", choices=READERS, default="plain")
    parser.add_argument("--lines", type=int, help="required number of sentences of each file")
    parser.add_argument("--to", nargs="+", required=True)
    parser.add_argument("--from", nargs="+", required=True, dest="files")
    args = parser.parse_args()
    sides = len(args.to)
    filled = [False] * sides
    with ExitStack() as stack:
        outs = [
            stack.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in args.to
        ]
        for start in range(0, len(args.files), sides):
            sizes = {}
            for side, path in enumerate(args.files[start : start + sides]):
                count = 0
                try:
                    for line in READERS[args.markup](read_lines(path)):
                        # fairseq would split a line at a carriage return.
                        outs[side].write(line.replace("\r", " ") + "\n")
                        filled[side] = filled[side] or bool(line.strip())
                        count += 1
                except UserError:
                    raise
                except ValueError as error:
                    raise UserError(f"{path}: {error}") from None
                if args.lines is not None and count != args.lines:
                    raise UserError(f"{path} has {count:,} sentences, expected {args.lines:,}")
                sizes[path] = count
            _check(sizes)
    for side, whole in enumerate(filled):
        if not whole:
            names = ", ".join(args.files[side::sides])
            split = args.to[side].rpartition("/")[2].partition(".")[0]
            raise UserError(
                f"the {split} text ({names}) is empty; give text with a sentence a line"
            )


def _check(sizes: dict[str, int]) -> None:
    (first, count), *others = sizes.items()
    for path, other in others:
        if other != count:
            raise UserError(
                f"the two sides differ in length: {first} has {count:,} lines, {path} has "
                f"{other:,}; line n of one must translate line n of the other"
            )


if __name__ == "__main__":
    run_cli(main)
