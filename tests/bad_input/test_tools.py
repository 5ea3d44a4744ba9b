"""Wrong inputs to ``diverse-mha`` and to the tools around results."""

import pytest

from tests.bad_input.harness import Row, check

pytestmark = pytest.mark.integration

HELP = "--help"
SAVED = "earlier one of the run"
ROWS = [
    # diverse-mha average
    Row("average-nothing", "average -o x.pt", "required: CKPT", "average --help"),
    Row("average-folder", "average run -o x.pt", "run is a folder", "--last N"),
    Row("average-last-0", "average run --last 0 -o x.pt", "--last 0", "at least 1"),
    Row("average-last-too-many", "average run --last 9 -o x.pt", "--last 9", "only 3 files"),
    Row("average-by-unknown", "average run --last 1 --by day -o x.pt", "'day'", "epoch"),
    Row("average-by-idle", "average best.pt --by update -o x.pt", "--by update", "--last"),
    Row("average-cut", "average best.pt cut.pt -o x.pt", "cut.pt", SAVED),
    Row("average-no-model", "average nomodel.pt -o x.pt", "nomodel.pt", "give one that has"),
    Row("average-other-shape", "average best.pt lm.pt -o x.pt", "lm.pt", "do not mix models"),
    Row("average-lacking", "average best.pt lacking.pt -o x.pt", "lacking.pt", "do not mix"),
    Row("average-twice", "average best.pt run/../best.pt -o x.pt", "best.pt: is named twice", ""),
    Row("average-output-input", "average best.pt -o best.pt", "--output best.pt", "another name"),
    Row("average-output-folder", "average best.pt -o save", "--output save", "give a file name"),
    # diverse-mha translate
    Row("translate-length", "translate best.pt bin --max-len-a -1", "--max-len-a: -1", "0 to 1000"),
    # diverse-mha compare
    Row("compare-output", "compare --baseline a.txt --system b.txt --output file/x.json",
        "--output file/x.json", "another"),
    Row("compare-no-run", "compare --baseline no --system a.txt", "no", "name a folder"),
    Row("compare-run-text", "compare --baseline a.txt --system b.txt", "a.txt", "readable as JSON"),
    Row("compare-two-files", "compare a.txt b.txt", "a.txt b.txt", HELP),
    # diverse-mha analyze
    Row("analyze-no-checkpoint", "analyze no.pt bin", "no.pt", "give the .pt file"),
    Row("analyze-cfg-without-task", "analyze notask.pt bin", "notask.pt", "give a training"),
    Row("analyze-no-dictionary", "analyze best.pt nodict", "nodict", "fairseq-preprocess"),
    Row("analyze-subset", "analyze best.pt bin --subset dev", "--subset dev", "there: "),
    Row("analyze-measure", "analyze best.pt bin --measures cke", "cke", "cka"),
    Row("analyze-threshold", "analyze best.pt bin --threshold 2", "--threshold: 2", "1"),
    Row("analyze-against", "analyze best.pt bin --against no.pt", "no.pt", "give"),
    Row("analyze-against-lm", "analyze best.pt bin --against lm.pt", "lm.pt", "give"),
    Row("analyze-sentences", "analyze best.pt bin --sentences 1", "--sentences 1", "--output"),
    Row("analyze-importance-of", "analyze best.pt bin --importance-of mean",
        "--importance-of mean has no effect", "importance"),
    Row("analyze-max-tokens", "analyze best.pt bin --max-tokens 2", "--max-tokens 2", "give more"),
    Row("analyze-nan", "analyze nan-best.pt bin", "nan-best.pt: parameter ", "take a"),
    Row("analyze-output-empty", "analyze best.pt bin --output ''", "--output is empty", "a path"),
    Row("analyze-output", "analyze best.pt bin --output file/x", "--output file/x", "folder"),
    Row("analyze-output-run", "analyze best.pt bin --output .", "--output .", "of its own"),
    Row("prune-curve-run", "prune best.pt bin --curve 0 --output .", "--output .", "of its own"),
    # diverse-mha align
    Row("align-lm", "align lm.pt bin", "lm.pt: ", "no attention to a source"),
    Row("align-gold", "align best.pt bin --gold gold", "gold", "has 1 lines, the split 40"),
    Row("align-link", "align best.pt bin --gold outside", "line 1: link 0-99", "outside the sen"),
    Row("align-head", "align best.pt bin --head 3.1", "--head 3.1: ", "has 2 layers"),
    # diverse-mha reproduce
    Row("reproduce-out", "reproduce li2018 1 --scale smoke --out file/x", "file", "another"),
    # the benchmark
    Row("benchmark-shape", "benchmark --shape huge", "'huge'", "small"),
    Row("benchmark-variant", "benchmark --variants stok", "stok", "stock"),
    Row("check-gpu", "check-gpu --device cpu --only speed", "unknown 'speed'", "facts, kernel"),
    Row("benchmark-device", "benchmark --device tpu", "--device tpu", "choose cpu or cuda"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_refused_in_one_line(row, world, monkeypatch, capsys):
    check(row, world, monkeypatch, capsys)
