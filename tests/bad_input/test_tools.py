"""Wrong inputs to ``diverse-mha`` and to the tools around results."""

import pytest

from tests.bad_input.harness import Row, check

pytestmark = pytest.mark.integration

HELP = "--help"
SAVED = "earlier one of the run"
ROWS = [
    # diverse-mha average
    Row("average-nothing", "average -o x.pt", "required: CKPT", "average --help"),
    Row("average-no-output", "average best.pt", "required: --output", HELP),
    Row("average-unknown-option", "average best.pt -o x.pt --lats 2", "--lats", HELP),
    Row("average-folder", "average run -o x.pt", "run is a folder", "--last N"),
    Row("average-last-not-a-number", "average run --last two -o x.pt", "--last: invalid int", HELP),
    Row("average-last-0", "average run --last 0 -o x.pt", "--last 0", "at least 1"),
    Row("average-last-too-many", "average run --last 9 -o x.pt", "--last 9", "only 3 files"),
    Row("average-last-gap", "average run --last 3 -o x.pt", "checkpoint3.pt is missing", "by name"),
    Row("average-by-unknown", "average run --last 1 --by day -o x.pt", "'day'", "epoch"),
    Row("average-by-idle", "average best.pt --by update -o x.pt", "--by update", "--last"),
    Row("average-cut", "average best.pt cut.pt -o x.pt", "cut.pt", SAVED),
    Row("average-no-model", "average nomodel.pt -o x.pt", "nomodel.pt", "give one that has"),
    Row("average-other-shape", "average best.pt lm.pt -o x.pt", "lm.pt", "do not mix models"),
    Row("average-lacking", "average best.pt lacking.pt -o x.pt", "lacking.pt", "do not mix"),
    Row("average-output-input", "average best.pt -o best.pt", "--output best.pt", "another name"),
    Row("average-output-folder", "average best.pt -o save", "--output save", "give a file name"),
    Row("average-output-below-file", "average best.pt -o file/x.pt", "file", "another place"),
    # diverse-mha doctor, path and no command at all
    Row("doctor-unknown-option", "doctor --jsn", "--jsn", HELP),
    Row("path-argument", "path here", "here", "--help"),
    # diverse-mha translate
    Row("translate-length", "translate best.pt bin --max-len-a -1", "--max-len-a: -1", "0 to 1000"),
    Row("translate-penalty", "translate best.pt bin --lenpen nan", "--lenpen: nan", "-10 to 10"),
    # diverse-mha compare
    Row("compare-seed", "compare --baseline a.txt --system b.txt --seed 0", "--seed: 0", "1 up"),
    Row("compare-output", "compare --baseline a.txt --system b.txt --output file/x.json",
        "--output file/x.json", "another"),
    Row("compare-one-side", "compare --baseline a.txt", "--system", "name the runs"),
    Row("compare-no-run", "compare --baseline no --system a.txt", "no", "name a folder"),
    Row("compare-run-text", "compare --baseline a.txt --system b.txt", "a.txt", "readable as JSON"),
    Row("compare-two-files", "compare a.txt b.txt", "a.txt b.txt", HELP),
    # diverse-mha analyze
    Row("analyze-no-checkpoint", "analyze no.pt bin", "no.pt", "give the .pt file"),
    Row("analyze-cut", "analyze cut.pt bin", "cut.pt", SAVED),
    Row("analyze-no-options", "analyze nocfg.pt bin", "nocfg.pt", "give a training checkpoint"),
    Row("analyze-cfg-without-task", "analyze notask.pt bin", "notask.pt", "give a training"),
    Row("analyze-lacking", "analyze lacking.pt bin", "lacking.pt", "give"),
    Row("analyze-no-data", "analyze best.pt no", "no", "data-prep/"),
    Row("analyze-no-dictionary", "analyze best.pt nodict", "nodict", "fairseq-preprocess"),
    Row("analyze-subset", "analyze best.pt bin --subset dev", "--subset dev", "there: "),
    Row("analyze-measure", "analyze best.pt bin --measures cke", "cke", "cka"),
    Row("analyze-layer", "analyze best.pt bin --layers 9", "--layers 9", "has 2 layers"),
    Row("analyze-layer-0", "analyze best.pt bin --layers 0", "--layers 0", "from 1"),
    Row("analyze-component", "analyze lm.pt bin --components cross", "cross", "decoder"),
    Row("analyze-threshold", "analyze best.pt bin --threshold 2", "--threshold 2", "1"),
    Row("analyze-against", "analyze best.pt bin --against no.pt", "no.pt", "give"),
    Row("analyze-against-lm", "analyze best.pt bin --against lm.pt", "lm.pt", "give"),
    Row("analyze-sentence", "analyze best.pt bin --sentence 1", "--sentence 1", "--output"),
    Row("analyze-max-tokens", "analyze best.pt bin --max-tokens x", "--max-tokens", HELP),
    Row("analyze-output", "analyze best.pt bin --output file/x", "--output file/x", "folder"),
    Row("analyze-output-run", "analyze best.pt bin --output .", "--output .", "of its own"),
    Row("prune-curve-run", "prune best.pt bin --curve 0 --output .", "--output .", "of its own"),
    # diverse-mha reproduce
    Row("reproduce-paper", "reproduce li2028 1 --scale smoke", "li2028", "li2018"),
    Row("reproduce-seeds", "reproduce li2018 1 --scale smoke --seeds 1,x", "--seeds 1,x", "give"),
    Row("reproduce-out", "reproduce li2018 1 --scale smoke --out file/x", "file", "another"),
    # the benchmark
    Row("benchmark-shape", "benchmark --shape huge", "'huge'", "small"),
    Row("benchmark-variant", "benchmark --variants stok", "stok", "stock"),
    Row("benchmark-rounds", "benchmark --rounds 0", "--rounds: 0", "from 1 up"),
    Row("benchmark-device", "benchmark --device tpu", "--device tpu", "choose cpu or cuda"),
    Row("benchmark-length", "benchmark --mean-length nan", "--mean-length nan", "between 2"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_refused_in_one_line(row, world, monkeypatch, capsys):
    check(row, world, monkeypatch, capsys)
