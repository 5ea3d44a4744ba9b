"""Wrong inputs to the preparation of corpora."""

import pytest

from tests.bad_input.harness import Row, check

pytestmark = pytest.mark.integration

HELP = "--help"
OWN = "prepare own --out save --from own --source de --target en"
ROWS = [
    Row("corpus-unknown", "prepare iwslt --out save", "'iwslt'", "iwslt14"),
    Row("corpus-pairs", "prepare demo --out save --pairs 3", "--pairs: 3", "from 20 up"),
    Row("corpus-seed", "prepare demo --out save --seed -1", "--seed: -1", "from 0 up"),
    Row("corpus-merges", "prepare multi30k --out save --merges 0", "--merges: 0", "from 1 up"),
    Row("corpus-subwords", "prepare multi30k --out save --subwords syllable", "'syllable'", "bpe"),
    Row("corpus-threshold", "prepare multi30k --out save --vocabulary-threshold 5 "
        "--subwords sentencepiece", "--vocabulary-threshold", "--subwords bpe"),
    Row("corpus-idle-option", "prepare demo --out save --from own", "--from own", HELP),
    Row("corpus-from", "prepare multi30k --out save --from no", "no", "--from"),
    Row("corpus-from-file", "prepare multi30k --out save --from file", "file", "--from"),
    Row("corpus-out-below-file", "prepare demo --out file/x", "file", "another place"),
    Row("corpus-own-languages", "prepare own --out save --from own --source de --target de",
        "both de", "--target"),
    Row("corpus-own-no-side", "prepare own --out save --from own --source de --target fr",
        "train.fr", "put them there"),
    Row("corpus-own-lengths", OWN, "valid.de has 3 lines", "must translate line n"),
    Row("lm-corpus", "prepare-lm ptbb --out save", "'ptbb'", "ptb"),
    Row("lm-from", "prepare-lm ptb --out save --from no", "no", "--from"),
    Row("lm-empty-text", "prepare-lm own --out save --from own", "test.txt) is empty", "give"),
    Row("lm-cut-gzip", "prepare-lm own --out save --from gz", "gz/train.txt.gz", "fetch it again"),
    Row("lm-count", "prepare-lm own --out save --from own --min-count x", "--min-count: x", "up"),
    Row("lm-out", "prepare-lm own --out file/x --from own", "file", "another place"),
    Row("logic-draws", "prepare-logic --out save --draws many", "--draws: many", "from 1 up"),
    Row("logic-idle", "prepare-logic --out save --from logic --draws 5", "--draws", "leave out"),
    Row("logic-operators", "prepare-logic --out save --train-operators 13", "--train-operators 13",
        "at most 12"),
    Row("logic-from", "prepare-logic --out save --from no", "no: no such folder", "train0.gz"),
    Row("logic-lacks", "prepare-logic --out save --from own", "own lacks train1", "add them"),
    Row("logic-line", "prepare-logic --out save --from logic", "logic/train1:1", "expected 3"),
    Row("logic-out", "prepare-logic --out file/x --draws 900", "file", "another place"),
    Row("probing-task", "prepare-probing --out save --tasks depht", "depht", "depth"),
    Row("probing-from", "prepare-probing --out save --from no", "no, given by --from",
        "not a folder"),
    Row("probing-file", "prepare-probing --out save --from own --tasks tree_depth", "own", "put"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_refused_in_one_line(row, world, monkeypatch, capsys):
    check(row, world, monkeypatch, capsys)
