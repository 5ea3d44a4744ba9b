"""Wrong inputs to the commands that score checkpoints."""

import pytest

from tests.bad_input.harness import Row, check

pytestmark = pytest.mark.integration

HELP = "--help"
WHOLE = "give a whole one"
AGAIN = "fairseq-preprocess"
DIVERGED = "take a checkpoint from before"
ROWS = [
    # scripts/evaluate.sh
    Row("mt-no-checkpoint", "evaluate no.pt bin", "no.pt", "check the folder"),
    Row("mt-cut", "evaluate cut.pt bin", "cut.pt", WHOLE),
    Row("mt-classifier", "evaluate classifier.pt bin", "classifier.pt", "evaluate-classifier"),
    Row("mt-no-options", "evaluate nocfg.pt bin", "nocfg.pt", "fairseq-train wrote"),
    Row("mt-lacking", "evaluate lacking.pt bin", "lacking.pt", "give"),
    Row("mt-no-data", "evaluate best.pt no", "no: no such data folder", "data-prep/"),
    Row("mt-subset", "evaluate best.pt bin --subset dev", "--subset dev", "there: test"),
    Row("mt-language", "evaluate best.pt bin --target-lang fr", "--target-lang fr", "src and tgt"),
    Row("mt-beam", "evaluate best.pt bin --beam 0", "--beam: 0", "from 1 up"),
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
    Row("mt-output-place", "evaluate best.pt bin --output file/x.json", "file", "another place"),
    Row("mt-dictionary-empty", "evaluate best.pt emptydict", "best.pt", "trained on"),
    Row("mt-cut-text", "evaluate best.pt cutbin", "cutbin/test.bin", AGAIN),
    Row("mt-corpus-note", "evaluate best.pt badnote --beam 1 --max-len-b 1",
        "badnote/corpus.json", "--moses-language"),
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
    # Models that became NaN
    Row("mt-nan", "evaluate nan-best.pt bin", "nan-best.pt: parameter ", DIVERGED),
    Row("export-no-checkpoint", "export no.pt x.pt --format fairseq", "no.pt", "check the folder"),
    Row("average-nan", "average best.pt nan-best.pt -o x.pt", "nan-best.pt: param", DIVERGED),
    # scripts/evaluate-lm.sh
    Row("lm-translation", "evaluate-lm best.pt bin", "best.pt", "diverse-mha evaluate"),
    Row("lm-no-task", "evaluate-lm notask.pt bin", "notask.pt", "diverse-mha evaluate"),
    Row("lm-window", "evaluate-lm lm.pt bin --context-window -1", "--context-window: -1", "from 0"),
    Row("lm-dictionary", "evaluate-lm lm.pt nodict", "nodict holds no dict", "give the folder"),
    Row("lm-empty", "evaluate-lm lm.pt hollow --subset none", "hollow/none.idx", "another split"),
    # scripts/evaluate-classifier.sh
    Row("class-translation", "evaluate-classifier best.pt pairs", "best.pt",
        "diverse-mha evaluate"),
    Row("class-data", "evaluate-classifier classifier.pt bin", "bin: no labels in it",
        "data-prep/"),
    Row("class-empty", "evaluate-classifier classifier.pt hollowpairs --subset valid,none",
        "input0/none.idx", "another split"),
    Row("class-dictionary", "evaluate-classifier classifier.pt badpairs", "badpairs/label/dict.txt",
        AGAIN),
]  # fmt: skip


# fairseq's commands rely on that behaviour of Hydra's.
@pytest.mark.filterwarnings(r"ignore:\s*'\w+' is validated against ConfigStore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_refused_in_one_line(row, world, monkeypatch, capsys):
    check(row, world, monkeypatch, capsys)
