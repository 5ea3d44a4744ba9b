"""Corpora made of the demo corpus, for the smoke scale.

``language-model --data FOLDER`` and ``probing --data FOLDER`` prepare, below the folder, ``demo``
(where it is missing), and from its sentences ``demo_lm`` or ``probing``.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli
from diverse_mha.corpora import prepare, prepare_lm
from diverse_mha.corpora.text import read_lines, write_lines
from diverse_mha.training.reproduce.corpora import CORPORA, DATA
from diverse_mha.training.reproduce.papers.li2021 import PROBING_TASKS

SPLITS = {"train": "tr", "valid": "va", "test": "te"}


def main(words: Sequence[str]) -> int:
    """Prepare what the command line names."""
    parser = OneLineParser(prog="reproduce.stand_in", description=__doc__)
    parser.add_argument("what", choices=("language-model", "probing"))
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args(words)
    recipe = CORPORA["iwslt17_de_en"]["smoke"]
    options = [word.replace(DATA, str(args.data)) for word in recipe.prepare[1:]]
    prepare.main(["demo", *options])
    if args.what == "language-model":
        _language_model(args.data)
    else:
        _probing(args.data)
    return 0


def _sentences(data: Path, split: str) -> list[list[str]]:
    return [line.split() for line in read_lines(data / f"demo/tok/{split}.qo")]


def _language_model(data: Path) -> None:
    text = data / "demo_lm.text"
    text.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        write_lines(text / f"{split}.txt", map(" ".join, _sentences(data, split)))
    prepare_lm.main(["own", "--from", str(text), "--out", str(data / "demo_lm")])


def _cut(value: int, *edges: int) -> str:
    return str(sum(value >= edge for edge in edges))


# Labels that the surface of a sentence gives. The real tasks ask for more; two of them change
# the sentence, and so do theirs.
_LABELS: dict[str, Callable[[list[str]], str]] = {
    "sentence_length": lambda words: _cut(len(words), 6, 8, 10, 12, 14),
    "word_content": lambda words: max(words, key=len)[:1],
    "tree_depth": lambda words: _cut(sum(word == "," for word in words), 1, 2),
    "top_constituents": lambda words: words[0][:1],
    "past_present": lambda words: _cut(len(words[-2]) if len(words) > 1 else 0, 6),
    "subj_number": lambda words: str(words[0].endswith("a")),
    "obj_number": lambda words: str(any(word.endswith("an") for word in words)),
}
_CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "bigram_shift": lambda words: [*words[:1], *words[1:3][::-1], *words[3:]],
    "odd_man_out": lambda words: [*words[:2], "odd", *words[3:]],
    "coordination_inversion": lambda words: words[len(words) // 2 :] + words[: len(words) // 2],
}


def probing_lines(task: str, split: str, sentences: Sequence[list[str]]) -> list[str]:
    """Write sentences as a probing task: split, label and sentence, separated by tabs.

    In a task that changes sentences every second one is changed, and the label says so.
    """
    lines = []
    for number, words in enumerate(sentences):
        if task in _CHANGES:
            changed = number % 2 == 1
            label = "I" if changed else "O"
            words = _CHANGES[task](words) if changed else words
        else:
            label = _LABELS[task](words)
        lines.append("\t".join((SPLITS[split], label, " ".join(words))))
    return lines


def _probing(data: Path) -> None:
    from diverse_mha.corpora import prepare_probing

    text = data / "probing.text"
    text.mkdir(parents=True, exist_ok=True)
    for task in PROBING_TASKS:
        lines = []
        for split in SPLITS:
            lines += probing_lines(task, split, _sentences(data, split))
        write_lines(text / f"{task}.txt", lines)
    prepare_probing.main(["--from", str(text), "--out", str(data / "probing")])


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
