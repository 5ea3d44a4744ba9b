"""Wrong inputs to the preparation of corpora."""

import subprocess

import pytest

from tests.bad_input.harness import Row, tree
from tests.corpora.scripts import ROOT, environment

pytestmark = pytest.mark.integration

OWN = "own --out save --from own --source de --target"
ROWS = [
    Row("corpus-pairs", "demo --out save --pairs 3", "--pairs: 3", "from 20 up"),
    Row("corpus-subwords", f"{OWN} en --subwords syllable", "syllable", "bpe, sentencepiece"),
    Row("corpus-idle-option", "demo --out save --from own", "--from", "--help"),
    Row("corpus-no-option", "multi30k --out save words", "words", "--help"),
    Row("corpus-no-value", "multi30k --out", "--out: needs a value", "--help"),
    Row("corpus-from", "multi30k --out save --from no", "no", "--from"),
    Row("corpus-out-below-file", "demo --out file/x", "file", "another place"),
    Row("corpus-own-languages", f"{OWN} de", "both de", "--target"),
    Row("corpus-own-no-side", f"{OWN} fr", "train.fr", "put it there"),
    Row("corpus-own-lengths", f"{OWN} en", "valid.de has 3 lines", "must translate line n"),
    Row("lm-empty-text", "own-text --out save --from own", "test.txt) is empty", "give"),
    Row("logic-draws", "logic --out save --draws many", "--draws: many", "from 1 up"),
    Row("logic-idle", "logic --out save --from logic --draws 5", "--draws", "leave out"),
    Row("logic-operators", "logic --out save --train-operators 13", "--train-operators 13",
        "at most 12"),
    Row("logic-lacks", "logic --out save --from own", "own lacks train1", "add them"),
    Row("logic-line", "logic --out save --from logic", "logic/train1:1", "is no relation"),
    Row("probing-task", "probing --out save --tasks depht", "depht", "depth"),
    Row("probing-file", "probing --out save --from own --tasks tree_depth", "own", "put"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_refused_in_one_line(row, world):
    name, words = row.command.split(" ", 1)
    before = tree(world)
    done = subprocess.run(
        ["bash", str(ROOT / f"data-prep/prepare-{name}.sh"), *words.split()],
        cwd=world, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert row.culprit in done.stderr and row.cure in done.stderr, done.stderr
    assert tree(world) == before
