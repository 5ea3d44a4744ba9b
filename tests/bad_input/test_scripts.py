"""Wrong input to the shell scripts."""

import subprocess

import pytest

from diverse_mha.common.files import ROOT
from tests.bad_input.harness import Row, tree
from tests.corpora.scripts import environment

pytestmark = pytest.mark.integration

NOWHERE = "DIVERSE_MHA_PYTHON=/nowhere/python"
SCRIPTS = [
    Row("python-nowhere", f"{NOWHERE} bash scripts/evaluate.sh best.pt bin", NOWHERE, "unset it"),
    Row("python-a-folder", "DIVERSE_MHA_PYTHON=/tmp bash scripts/train.sh bin", "=/tmp", "unset"),
    Row("python-no-python", "DIVERSE_MHA_PYTHON=/bin/false bash scripts/lint.sh", "/bin/false",
        "torch and fairseq"),
    Row("quickstart-option", "bash scripts/quickstart.sh --updates 5", "--updates", "--help"),
    Row("quickstart-updates", "QUICKSTART_UPDATES=many bash scripts/quickstart.sh",
        "QUICKSTART_UPDATES=many", "whole number from 1"),
    Row("run-no-recipe", "bash scripts/run.sh nothing", "nothing", "configs/ has"),
    Row("run-two-corpora", "bash scripts/run.sh demo --data x task.data=y", "--data x", "give one"),
    Row("run-score", "bash scripts/run.sh demo scoring.score=ter", "scoring.score=ter", "choose"),
    Row("setup-option", "bash scripts/setup.sh --force", "--force", "--help"),
    Row("check-gpu-device", "bash scripts/check-gpu.sh --device tpu", "--device tpu",
        "cuda or cpu"),
    Row("full-disk-average", "ulimit -f 1; $DIVERSE_MHA_PYTHON -m diverse_mha.cli average best.pt "
        "-o x.pt", "x.pt", "ulimit -f"),
]  # fmt: skip
OWN = "own --out save --from own --source de --target"
CORPORA = [
    Row("corpus-pairs", "demo --out save --pairs 3", "--pairs: 3", "from 20 up"),
    Row("corpus-pairs-word", "demo --out save --pairs x", "--pairs: x", "from 20 up"),
    Row("corpus-subwords", f"{OWN} en --subwords syllable", "syllable", "bpe, sentencepiece"),
    Row("corpus-idle-option", "demo --out save --from own", "--from", "--help"),
    Row("corpus-no-option", "multi30k --out save words", "words", "--help"),
    Row("corpus-no-value", "multi30k --out", "--out: needs a value", "--help"),
    Row("corpus-from", "multi30k --out save --from no", "no", "--from"),
    Row("corpus-out-below-file", "demo --out file/x", "file", "another path"),
    Row("corpus-own-languages", f"{OWN} de", "both de", "--target"),
    Row("corpus-own-no-side", f"{OWN} fr", "train.fr", "put it there"),
    Row("corpus-own-lengths", f"{OWN} en", "valid.de has 3 lines", "must translate line n"),
    Row("lm-empty-text", "own-text --out save --from own", "test.txt) is empty", "give"),
    Row("logic-draws", "logic --out save --draws many", "--draws: many", "from 1 up"),
    Row("logic-idle", "logic --out save --from logic --draws 5", "--draws", "leave out"),
    Row("logic-operators", "logic --out save --train-operators 13", "--train-operators 13",
        "at most 12"),
    Row("logic-lacks", "logic --out save --from own", "own lacks train1", "add them"),
    Row("logic-line", "logic --out save --from logic", "logic/train1:1", "expected RELATION"),
    Row("probing-task", "probing --out save --tasks depht", "depht", "depth"),
    Row("probing-file", "probing --out save --from own --tasks tree_depth", "own", "put"),
]  # fmt: skip


def check(row, command, world, **options):
    before = tree(world)
    command = command.replace("scripts/", f"{ROOT}/scripts/")
    done = subprocess.run(
        ["bash", "-c", command], cwd=world, env=environment(**options), capture_output=True,
        text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode not in (0, 127) and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert row.culprit in done.stderr and row.cure in done.stderr, done.stderr
    assert tree(world) == before
    return done.returncode


@pytest.mark.parametrize("row", SCRIPTS, ids=lambda row: row.name)
def test_wrong_input_to_a_script_is_refused_in_one_line(row, world):
    check(row, row.command, world, real=True)


@pytest.mark.parametrize("row", CORPORA, ids=lambda row: row.name)
def test_wrong_input_to_a_preparation_is_refused_in_one_line(row, world):
    name, words = row.command.split(" ", 1)
    assert check(row, f"bash {ROOT}/data-prep/prepare-{name}.sh {words}", world) == 2
