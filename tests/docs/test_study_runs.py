"""The published runs make the figures of the pages, and a wrong figure is found."""

import json
import shutil

import pytest

from diverse_mha.common.errors import UserError
from experiments import draw, packed, show
from tests.docs.blocks import ROOT

NOWHERE = ROOT / "no reference"


@pytest.fixture
def some(published, tmp_path):
    """A folder with four of the runs, of which one has other test sets, too."""
    baselines = [f"multi30k.de-en.baseline.seed{seed}" for seed in (7, 6)]
    for name in ("ptb.hsic.seed1", "logic.both.seed1", *baselines):
        (folder,) = published.glob(f"small/runs/{name}.*")
        shutil.copytree(folder, tmp_path / "some/small/runs" / folder.name)
    shutil.copytree(published / "other-tests" / name, tmp_path / "some/other-tests" / name)
    return tmp_path / "some"


def test_pages_and_csv_files_say_what_the_runs_say(published, capsys):
    code = show.show(published, None, True, NOWHERE)
    assert (code, capsys.readouterr().out) == (0, "139 runs: pages and CSVs agree\n")


def test_a_changed_figure_is_found(published, monkeypatch, tmp_path, capsys):
    for name, old, new in (
        ("DETAILS", "| 40.89 41.85 41.03", "| 40.89 41.86 41.03"),
        ("DETAILS", "| +0.028 [+0.018, +0.037] |", "| +0.028 [+0.018, +0.038] |"),
        ("DETAILS", "| Pos., encoder | 40.59 | 39.87 |", "| Pos., encoder | 40.59 | 39.88 |"),
        ("DETAILS", "| RealFormer | 3 | 38", "| RealFormers | 3 | 38"),
        ("SUMMARY", "| Pos., encoder | 3 | 41.31 |", "| Pos., encoder | 3 | 41.32 |"),
        ("RUNS", ",41.8538,", ",41.8539,"),
        ("CURVES", "4cbf94ab,251,6.748,", "4cbf94ab,251,6.749,"),
    ):
        text = getattr(show, name).read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        monkeypatch.setattr(show, name, tmp_path / getattr(show, name).name)
        getattr(show, name).write_text(text.replace(old, new), encoding="utf-8")
    assert show.show(published, None, True, NOWHERE) == 1
    found = [line.removeprefix(f"{tmp_path}/") for line in capsys.readouterr().out.splitlines()]
    assert found == [
        "results.md: summary: Pos., encoder: BLEU: '41.32', the runs say '41.31'",
        "details.md: to-the-end: rows on the page alone or of the runs alone: "
        "RealFormer, RealFormers",
        "details.md: to-the-end: Baseline: BLEU, each seed: '40.89 41.86 41.03 40.64 41.00', "
        "the runs say '40.89 41.85 41.03 40.64 41.00'",
        "details.md: ten-epochs: Pos., encoder: seed 2: '39.88', the runs say '39.87'",
        "details.md: ptb: HSIC: difference of loss (95 %): '+0.028 [+0.018, +0.038]', "
        "the runs say '+0.028 [+0.018, +0.037]'",
        "runs.csv:3: sacrebleu: '41.8539', the runs say '41.8538'",
        "curves.csv:2: nll_loss: '6.749', the runs say '6.748'",
    ]


def test_packing_gives_the_same_bytes_and_all_that_a_table_needs(some, tmp_path):
    archive = packed.pack(packed.read_runs(some))
    (tmp_path / "runs.tar.xz").write_bytes(archive)
    packed.unpack(tmp_path / "runs.tar.xz", tmp_path / "again")
    for path in (path for path in some.rglob("*") if path.is_file()):
        assert (tmp_path / "again" / path.relative_to(some)).read_bytes() == path.read_bytes()
    raw = packed.read_runs(some)[1].folder  # as a training and an analysis leave it
    (raw / "checkpoint_best.pt").write_bytes(b"large")
    log, (heads,) = raw / "train.log", raw.glob("heads.*")
    lines = log.read_text().splitlines(keepends=True)
    step = '2026-11-22 | INFO | train_inner | {"epoch": 1, "num_updates": "100"}\n'
    log.write_text("".join(f"{step}2026-11-22 | INFO | valid | {line}" for line in lines))
    content = json.loads(heads.read_text()) | {"coefficients": [1.0]}
    heads.write_text(json.dumps(content, indent=2))
    assert packed.pack(packed.read_runs(some)) == archive


def test_unpacking_leaves_the_runs_that_are_there(tmp_path, capsys):
    assert show.main(["--unpack", str(tmp_path)]) == 0
    (own,) = tmp_path.glob("small/runs/multi30k.de-en.baseline.seed6.*")
    (own / "result.json").write_text("mine")
    (gone,) = tmp_path.glob("small/runs/multi30k.de-en.baseline.seed7.*")
    shutil.rmtree(gone)
    assert show.main(["--unpack", str(tmp_path)]) == 0
    assert (own / "result.json").read_text() == "mine" and (gone / "test.hyp.detok").is_file()
    assert capsys.readouterr().out.endswith("138 were there and are left\n")


def test_pictures_show_every_row_by_its_seeds(published):
    runs = show.by_label(packed.read_runs(published), "to-the-end")
    curves = draw.learning_curves({label: runs[label] for label in ("Baseline", "CODA")})
    assert [axis.get_title() for axis in curves.axes] == ["Baseline", "CODA"]
    _, *own = curves.axes[1].lines  # the first is the zero
    assert len(own) == len(runs["CODA"]) == 3
    first = [kept.validation[0]["nll_loss"] for kept in runs["Baseline"]]
    apart = runs["CODA"][0].validation[0]["nll_loss"] - sum(first) / len(first)
    assert own[0].get_ydata()[0] == pytest.approx(apart)


def test_a_folder_without_runs_is_refused_and_rows_that_differ_are_named(some, capsys):
    with pytest.raises(UserError, match="--pack .*has no run of the study in small/runs; name"):
        show.write(some / "small", NOWHERE)
    assert show.show(some, "ptb", True, NOWHERE) == 1
    said = "results/details.md: ptb: rows on the page alone or of the runs alone: All three, "
    assert said in capsys.readouterr().out
