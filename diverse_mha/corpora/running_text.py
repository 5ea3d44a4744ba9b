"""Running text for language models: checks the splits and writes ``corpus.json``.

``python -m diverse_mha.corpora.running_text check|describe ...``
"""

import argparse
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_json
from diverse_mha.common.vocabulary import dictionaries_of
from diverse_mha.corpora.binarise import MARKS
from diverse_mha.corpora.text import read_lines

SPLITS = ("train", "valid", "test")


def check(folder: Path, expected: dict[str, int | None]) -> str:
    """Check ``train.txt``, ``valid.txt`` and ``test.txt``; return their sizes as text."""
    lines, tokens = dict.fromkeys(SPLITS, 0), dict.fromkeys(SPLITS, 0)
    for split in SPLITS:
        for number, line in enumerate(read_lines(folder / f"{split}.txt"), start=1):
            words = line.split()
            if not MARKS.isdisjoint(words):
                raise UserError(
                    f"the {split} text has {next(filter(MARKS.__contains__, words))} in line "
                    f"{number:,}, a special token that fairseq adds itself; remove it"
                )
            lines[split] = number
            tokens[split] += len(words) + 1
        if expected[split] not in (None, tokens[split]):
            raise UserError(
                f"the {split} text has {tokens[split]:,} tokens, expected {expected[split]:,}: "
                "this is not the published text; fetch the text again"
            )
    sizes = ", ".join(f"{count:,} {split}" for split, count in lines.items())
    return f"{sizes} lines; {tokens['train']:,} train tokens, including line ends"


def describe(corpus: str, raw: Path, folder: Path, min_count: int) -> str:
    """Write ``corpus.json`` into the data folder; return a summary of the vocabulary."""
    known = {line.rsplit(" ", 1)[0] for line in read_lines(folder / "dict.txt")}
    # fairseq pads dictionaries to a multiple of eight with these entries.
    words = sum(not word.startswith("madeupword") for word in known)
    made = {
        "corpus": corpus,
        "kind": "language model",
        "min_count": min_count,
        # Split -> share of unknown words, including those that are <unk> in the text itself.
        "unknown_words": {split: share_outside(known, raw / f"{split}.txt") for split in SPLITS},
        "dictionaries": dictionaries_of(folder, "dict.txt"),
    }
    write_json(folder / "corpus.json", made)
    shares = (f"{share:.2%} of {split}" for split, share in made["unknown_words"].items())
    return f"{words:,} different words, not counting <unk> ({', '.join(shares)}) and the line end"


def share_outside(known: set[str], path: Path) -> float:
    """Return the share of a text's words that are not in ``known``."""
    total = outside = 0
    for line in read_lines(path):
        words = line.split()
        total += len(words)
        outside += sum(word not in known for word in words)
    return round(outside / max(1, total), 6)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("check", "describe"))
    parser.add_argument("--corpus")
    parser.add_argument("--min-count", type=int, default=0)
    for split in SPLITS:
        parser.add_argument(f"--{split}", type=int, metavar="N", help="required number of tokens")
    parser.add_argument("paths", nargs="+", type=Path)
    args = parser.parse_args()
    if args.what == "check":
        (folder,) = args.paths
        print(check(folder, {split: getattr(args, split) for split in SPLITS}))
    else:
        raw, folder = args.paths
        print(describe(args.corpus, raw, folder, args.min_count))


if __name__ == "__main__":
    run_cli(main)
