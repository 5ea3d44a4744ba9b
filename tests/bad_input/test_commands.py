"""Wrong input to ``diverse-mha``, and to fairseq's commands that read checkpoints."""

import pytest

from tests.bad_input.harness import Row, check

pytestmark = pytest.mark.integration

AGAIN = "fairseq-preprocess"
DIVERGED = "take a checkpoint from before"
ROWS = [
    # scripts/evaluate.sh
    Row("mt-no-checkpoint", "evaluate no.pt bin", "no.pt", "check the folder"),
    Row("mt-cut", "evaluate cut.pt bin", "cut.pt", "give another"),
    Row("mt-classifier", "evaluate classifier.pt bin", "classifier.pt", "evaluate-classifier"),
    Row("mt-no-options", "evaluate nocfg.pt bin", "nocfg.pt", "give a checkpoint written"),
    Row("mt-lacking", "evaluate lacking.pt bin", "lacking.pt", "give"),
    Row("mt-no-data", "evaluate best.pt no", "no: no such data folder", "data-prep/"),
    Row("mt-subset", "evaluate best.pt bin --subset dev", "--subset dev", "available: test"),
    Row("mt-language", "evaluate best.pt bin --target-lang fr", "--target-lang fr", "src and tgt"),
    Row("mt-beam", "evaluate best.pt bin --beam 0", "--beam: 0", "1 or more"),
    Row("mt-option", "evaluate best.pt bin --beem 5", "--beem", "fairseq-generate --help"),
    Row("mt-reference", "evaluate best.pt bin --raw-reference no.txt", "no.txt", "--raw-reference"),
    Row("mt-reference-empty", "evaluate best.pt bin --tok-reference /dev/null", "/dev/null",
        "check the name"),
    Row("mt-reference-short", "evaluate best.pt bin --raw-reference short.txt",
        "--raw-reference short.txt has 2", "line n of"),
    Row("mt-references-short",
        "evaluate best.pt bin --raw-reference a.txt --tok-reference b.txt --beam 1 --max-len-b 1",
        "40 sentences for 3 reference lines", "check --subset"),
    Row("mt-output", "evaluate best.pt bin --output x.txt", "--output x.txt", "must end in .json"),
    Row("mt-output-place", "evaluate best.pt bin --output file/x.json", "file", "another path"),
    Row("mt-dictionary-empty", "evaluate best.pt emptydict", "best.pt", "trained on"),
    Row("mt-cut-text", "evaluate best.pt cutbin", "cutbin/test.bin", AGAIN),
    Row("mt-corpus-note", "evaluate best.pt badnote --beam 1 --max-len-b 1",
        "badnote/corpus.json", "prepare the data again"),
    Row("mt-corpus-note-plain", "translate best.pt badnote", "badnote/corpus.json",
        "prepare the data again"),
    Row("mt-shortest", "evaluate best.pt bin --beam 1 --max-len-b 5 --min-len 9", "--min-len 9",
        "leave these options out"),
    Row("mt-penalty", "evaluate best.pt bin --lenpen 1e9", "--lenpen: 1e9", "-10 to 10"),
    Row("mt-raw-words", "evaluate best.pt bin --replace-unk", "--replace-unk", "leave it out"),
    Row("mt-vocabulary", "evaluate best.pt otherdict --beam 1 --max-len-b 5", "otherdict",
        "give the data"),
    # fairseq's own commands
    Row("generate-unknown", "fairseq-generate bin --path best.pt --replace-unk", "--replace-unk",
        "leave it out"),
    Row("interactive-soft", "fairseq-interactive bin --path best.pt --print-alignment soft",
        "--print-alignment soft", "use fairseq-generate"),
    Row("generate-folder", "fairseq-generate bin --path run", "run: is a folder",
        "such as last.pt"),
    # Models with NaN
    Row("mt-nan", "evaluate nan-best.pt bin", "nan-best.pt: parameter ", DIVERGED),
    Row("export-no-checkpoint", "export no.pt x.pt --format fairseq", "no.pt", "check the folder"),
    Row("export-folder", "export run x.pt --format fairseq", "run: is a folder", "such as last.pt"),
    Row("average-nan", "average best.pt nan-best.pt -o x.pt", "nan-best.pt: param", DIVERGED),
    # scripts/evaluate-lm.sh
    Row("lm-translation", "evaluate-lm best.pt bin", "best.pt", "diverse-mha evaluate"),
    Row("lm-translation-data", "evaluate-lm best.pt pairs",
        "best.pt: trained on the task translation", "; use diverse-mha evaluate"),
    Row("lm-folder", "evaluate-lm run bin", "run: has no checkpoint_best.pt", "name a checkpoint"),
    Row("lm-no-task", "evaluate-lm notask.pt bin", "notask.pt", "diverse-mha evaluate"),
    Row("lm-window", "evaluate-lm lm.pt bin --context-window -1", "--context-window: -1", "0 or"),
    Row("lm-dictionary", "evaluate-lm lm.pt nodict", "nodict holds no dict", "give the folder"),
    Row("lm-empty", "evaluate-lm lm.pt hollow --subset none", "hollow/none.idx", "another split"),
    # scripts/evaluate-classifier.sh
    Row("class-translation", "evaluate-classifier best.pt pairs", "best.pt",
        "diverse-mha evaluate"),
    Row("class-lm", "evaluate-classifier lm.pt bin", "lm.pt: trained on the task language_mod",
        "; use diverse-mha evaluate-lm"),
    Row("class-data", "evaluate-classifier classifier.pt bin", "bin: has no labels",
        "data-prep/"),
    Row("class-empty", "evaluate-classifier classifier.pt hollowpairs --subset valid,none",
        "input0/none.idx", "another split"),
    Row("class-dictionary", "evaluate-classifier classifier.pt badpairs", "badpairs/label/dict.txt",
        AGAIN),
    # diverse-mha average
    Row("average-nothing", "average -o x.pt", "required: CKPT", "average --help"),
    Row("average-folder", "average run -o x.pt", "run is a folder", "--last N"),
    Row("average-last-0", "average run --last 0 -o x.pt", "--last 0", "at least 1"),
    Row("average-last-too-many", "average run --last 9 -o x.pt", "--last 9", "only 3 files"),
    Row("average-by-unknown", "average run --last 1 --by day -o x.pt", "'day'", "epoch"),
    Row("average-by-idle", "average best.pt --by update -o x.pt", "--by update", "--last"),
    Row("average-cut", "average best.pt cut.pt -o x.pt", "cut.pt", "earlier one of the run"),
    Row("average-no-model", "average nomodel.pt -o x.pt", "nomodel.pt", "give a file that"),
    Row("average-other-shape", "average best.pt lm.pt -o x.pt", "lm.pt", "do not mix models"),
    Row("average-lacking", "average best.pt lacking.pt -o x.pt", "lacking.pt", "do not mix"),
    Row("average-twice", "average best.pt run/../best.pt -o x.pt", "best.pt: is given twice", ""),
    Row("average-output-input", "average best.pt -o best.pt", "--output best.pt", "another name"),
    Row("average-output-folder", "average best.pt -o save", "--output save", "give a file name"),
    # diverse-mha translate
    Row("translate-length", "translate best.pt bin --max-len-a -1", "--max-len-a: -1", "0 to 1000"),
    Row("translate-folder", "translate run bin", "run: is a folder", "give a .pt file in it"),
    Row("translate-ensemble", "translate best.pt:bin bin", "bin: is a folder",
        "such as checkpoint_best.pt"),
    # diverse-mha compare
    Row("compare-output", "compare --baseline a.txt --system b.txt --output file/x.json",
        "--output file/x.json", "another"),
    Row("compare-no-run", "compare --baseline no --system a.txt", "no", "name a folder"),
    Row("compare-run-text", "compare --baseline a.txt --system b.txt", "a.txt", "readable as JSON"),
    Row("compare-two-files", "compare a.txt b.txt", "a.txt b.txt", "--help"),
    # diverse-mha analyze
    Row("analyze-no-checkpoint", "analyze no.pt bin", "no.pt", "check the folder"),
    Row("analyze-folder", "analyze run bin", "run: is a folder", "give a .pt file in it"),
    Row("align-reverse-folder", "align best.pt bin --reverse run", "run: is a folder",
        "give a .pt file in it"),
    Row("analyze-cfg-without-task", "analyze notask.pt bin", "notask.pt", "by fairseq-train"),
    Row("analyze-no-dictionary", "analyze best.pt nodict", "nodict", "fairseq-preprocess"),
    Row("analyze-subset", "analyze best.pt bin --subset dev", "--subset dev", "available: "),
    Row("analyze-measure", "analyze best.pt bin --measures cke", "cke", "cka"),
    Row("analyze-threshold", "analyze best.pt bin --threshold 2", "--threshold: 2", "at most 1"),
    Row("analyze-threshold-0", "analyze best.pt bin --threshold 0", "--threshold: 0", "above 0"),
    Row("analyze-against", "analyze best.pt bin --against no.pt", "no.pt", "check the folder"),
    Row("analyze-against-lm", "analyze best.pt bin --against lm.pt", "lm.pt", "give"),
    Row("analyze-sentences", "analyze best.pt bin --sentences 1", "--sentences 1", "--output"),
    Row("analyze-importance-of", "analyze best.pt bin --importance-of mean",
        "--importance-of mean has no effect", "importance"),
    Row("analyze-max-tokens", "analyze best.pt bin --max-tokens 2", "--max-tokens 2: example",
        "give --max-tokens "),
    Row("analyze-nan", "analyze nan-best.pt bin", "nan-best.pt: parameter ", "take a"),
    Row("analyze-output-empty", "analyze best.pt bin --output ''", "--output is empty", "a path"),
    Row("analyze-output", "analyze best.pt bin --output file/x", "--output file/x", "folder"),
    Row("analyze-output-run", "analyze best.pt bin --output .", "--output .", "another folder"),
    Row("prune-curve-remove", "prune best.pt bin --curve 0 --remove --output x", "--remove has no",
        "give --share or --heads"),
    Row("prune-curve-run", "prune best.pt bin --curve 0 --output .", "--output .", "another fol"),
    # diverse-mha align
    Row("align-lm", "align lm.pt pairs", "lm.pt: is not a translation model (trained on",
        "; give one, or use diverse-mha evaluate-lm"),
    Row("align-gold", "align best.pt bin --gold gold", "gold", "but the split has 40"),
    Row("align-link", "align best.pt bin --gold outside", "line 1: link 0-99", "outside the sen"),
    Row("align-head", "align best.pt bin --head 3.1", "--head 3.1: ", "has 2 layers"),
    Row("align-gold-from", "align best.pt bin --gold-from 1", "--gold-from has no effect",
        "without --gold"),
    Row("align-symmetrise", "align best.pt bin --symmetrise union", "--symmetrise has no effect",
        "without --reverse"),
    Row("align-reverse", "align best.pt bin --reverse best.pt", "--reverse best.pt",
        "give a model of"),
    # diverse-mha reproduce
    Row("reproduce-out", "reproduce li2018 1 --scale smoke --out file/x", "file", "another"),
    # the benchmark
    Row("benchmark-shape", "benchmark --shape huge", "'huge'", "small"),
    Row("benchmark-variant", "benchmark --variants stok", "stok", "stock"),
    Row("benchmark-device", "benchmark --device tpu", "--device tpu", "choose cpu or cuda"),
]  # fmt: skip


# fairseq's commands rely on this deprecated behaviour of Hydra.
@pytest.mark.filterwarnings(r"ignore:\s*'\w+' is validated against ConfigStore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_wrong_input_to_a_command_is_refused_in_one_line(row, world, monkeypatch, capsys):
    check(row, world, monkeypatch, capsys)
