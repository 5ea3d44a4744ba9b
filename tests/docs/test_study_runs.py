"""The published runs make the figures of the pages, and a wrong figure is found."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from experiments import draw, packed, show
from tests.docs.blocks import ROOT
from tests.docs.test_figures import page, rows

NOWHERE = ROOT / "no reference"


@pytest.fixture
def some(published, tmp_path):
    """A folder with three of the runs, of which one has other test sets, too."""
    for name in ("ptb.hsic.seed1", "logic.both.seed1", "multi30k.de-en.baseline.seed6"):
        (folder,) = published.glob(f"small/runs/{name}.*")
        shutil.copytree(folder, tmp_path / "some/small/runs" / folder.name)
    shutil.copytree(published / "other-tests" / name, tmp_path / "some/other-tests" / name)
    return tmp_path / "some"


def test_pages_and_csv_files_say_what_the_runs_say(published, capsys):
    code = show.show(published, None, True, NOWHERE)
    assert (code, capsys.readouterr().out) == (0, "113 runs: pages and CSVs agree\n")


def test_a_changed_figure_is_found(published, monkeypatch, tmp_path, capsys):
    for name, old, new in (
        ("DETAILS", "| 40.89 41.85 41.03", "| 40.89 41.86 41.03"),
        ("DETAILS", "| +0.028 [+0.018, +0.037] |", "| +0.028 [+0.018, +0.038] |"),
        ("DETAILS", "| Pos., encoder | 40.59 | 39.87 |", "| Pos., encoder | 40.59 | 39.88 |"),
        ("DETAILS", "| RealFormer | 3 | 38", "| RealFormers | 3 | 38"),
        ("SUMMARY", "| Pos., encoder | 3 | 41.31 |", "| Pos., encoder | 3 | 41.32 |"),
        ("RUNS", ",41.8538,", ",41.8539,"),
        ("CURVES", "4cbf94ab,1,251,7.638,", "4cbf94ab,1,251,7.639,"),
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
        "curves.csv:2: loss: '7.639', the runs say '7.638'",
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


def test_csv_files_have_the_figures_of_the_archive(some, tmp_path, monkeypatch):
    """Which are rounded: those of a run as an analysis leaves it would fail the check."""
    for name in ("ARCHIVE", "RUNS", "CURVES"):
        monkeypatch.setattr(show, name, tmp_path / getattr(show, name).name)
    (heads,) = next(some.glob("small/runs/ptb.hsic.*")).glob("heads.*")
    heads.write_text(re.sub(r"(\.\d{6})\b", r"\g<1>123", heads.read_text()))
    content = json.loads(heads.read_text()) | {"coefficients": [1.0]}
    heads.write_text(json.dumps(content))
    assert show.write(some, NOWHERE) == 0
    packed.unpack(show.ARCHIVE, tmp_path / "again")
    runs = packed.read_runs(tmp_path / "again")
    assert [
        said for path, text in show.csvs(runs, NOWHERE) for said in show.other_lines(path, text)
    ] == []


def test_a_folder_without_runs_is_refused_and_rows_that_differ_are_named(some, capsys):
    with pytest.raises(UserError, match="--pack .*has no run of the study in small/runs; name"):
        show.write(some / "small", NOWHERE)
    assert show.show(some, "ptb", True, NOWHERE) == 1
    said = "results/details.md: ptb: rows on the page alone or of the runs alone: All three, "
    assert said in capsys.readouterr().out


def test_the_pictures_show_every_row_by_its_seeds(published):
    runs = show.by_label(packed.read_runs(published), "to-the-end")
    some_rows = {label: runs[label] for label in ("Baseline", "Out., all", "CODA")}
    curves = draw.learning_curves(some_rows)
    assert [axis.get_title() for axis in curves.axes] == [*some_rows]
    own = [line for line in curves.axes[2].lines if line.get_linewidth() == 1.1]
    assert len(own) == len(runs["CODA"]) == 3
    assert list(own[0].get_ydata()) == [v["nll_loss"] for v in runs["CODA"][0].validation]
    found = SimpleNamespace(value=-4.0, interval=(-5.0, -3.0), over_seeds=False)
    differences = zip(some_rows, (None, found, found), strict=True)
    systems = [
        SimpleNamespace(name=name, measures={"BLEU": SimpleNamespace(difference=one)})
        for name, one in differences
    ]
    picture = draw.quality_against_diversity(some_rows, systems)
    legend = [text.get_text() for text in picture.legends[0].get_texts()]
    assert legend == ["Baseline", "Out., all †", "CODA †"]
    (point,) = picture.axes[0].containers[2].lines[0].get_xdata()
    assert point == pytest.approx(np.mean([kept.heads[0] for kept in runs["CODA"]]))


def test_their_tests_are_made_again_whatever_else_was_evaluated(published, tmp_path, capsys):
    for folder in published.glob("small/runs/ptb.*"):
        shutil.copytree(folder, tmp_path / "small/runs" / folder.name)
    for name in ("test.json", "checkpoint_best.test.json"):  # by hand, with other options
        score = {"subset": "test", "perplexity": 99.0}
        (tmp_path / "small/runs" / folder.name / name).write_text(json.dumps(score))
    words = ["reproduce", "study", "ptb", "--scale", "small", "--collect", "--out", str(tmp_path)]
    words += ["--seeds", "1,2,3"]
    assert cli.run(words) == 0, capsys.readouterr().out
    tests = json.loads((tmp_path / "small/tables/study-ptb.tests.json").read_text())["systems"]
    by_label = rows(page("results/details.md"), "| row, Penn Treebank |")
    for one in tests[1:]:
        for measure, column, p, digits in (
            ("perplexity", "difference of test (95 %)", "p", 2),
            ("valid nll", "difference of loss (95 %)", "p of loss", 3),
        ):
            said = re.findall(r"[-+][0-9.]+", by_label[one["name"]][column])
            found = one["measures"][measure]["over_seeds"]  # by seed, as on the page
            holm_p = one["measures"][measure]["over_seeds_holm"]
            exact = [found["value"], *found["interval"]]
            assert list(map(float, said)) == pytest.approx(exact, abs=0.6 * 10**-digits)
            assert float(by_label[one["name"]][p].strip("<")) == pytest.approx(holm_p, abs=1e-3)
    assert len(tests) == 5
    assert cli.run([*words, "--rows", "baseline,hsic"]) == 0
    tested = tmp_path / "small/tables/study-ptb-rows.tests.json"
    assert tested.exists() and cli.run([*words, "--rows", "hsic"]) == 0
    assert "no tests: they are against the row baseline, which is not" in capsys.readouterr().out
    assert not tested.exists(), "those of other rows"
    result = json.loads((tmp_path / "small/runs" / folder.name / "result.json").read_text())
    result["scores"]["test"]["tokens"] += 1
    (tmp_path / "small/runs" / folder.name / "result.json").write_text(json.dumps(result))
    assert cli.run(words) == 0, "without tests there is the table"
    assert "tests: FAILED: " in (said := capsys.readouterr().out) and "another test set" in said
    assert said.splitlines()[-2].startswith("written: ")
