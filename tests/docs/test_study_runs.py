"""Figures on the pages equal those of the published runs."""

import json
import shutil
from dataclasses import replace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import sha256_of
from results import archive, figures, kept, tables
from results import published as published_runs
from tests.docs.blocks import ROOT

NOWHERE = ROOT / "no reference"


@pytest.fixture
def some(published, tmp_path):
    """Folder with four published runs, one of them with further test sets."""
    baselines = [f"multi30k.de-en.baseline.seed{seed}" for seed in (7, 6)]
    for name in ("ptb.hsic.seed1", "logic.disagreement_em_routing.seed1", *baselines):
        (folder,) = published.glob(f"small/runs/{name}.*")
        shutil.copytree(folder, tmp_path / "some/small/runs" / folder.name)
    shutil.copytree(published / "other-tests" / name, tmp_path / "some/other-tests" / name)
    return tmp_path / "some"


def test_pages_and_csv_files_agree_with_the_published_runs(published):
    study = published_runs.Study(NOWHERE)
    assert tables.check_all(study, published) == [] and len(study.runs) == 227


def test_a_changed_figure_is_detected(published, monkeypatch, tmp_path):
    pages = {tables.DETAILS: "details.md", tables.SUMMARY: "results.md"}
    changes = (
        ("details.md", "| 40.89 41.85 41.03", "| 40.89 41.86 41.03"),
        ("details.md", "| +0.028 [+0.018, +0.037] |", "| +0.028 [+0.018, +0.038] |"),
        ("details.md", "| Pos., encoder | 40.59 | 39.87 |", "| Pos., encoder | 40.59 | 39.88 |"),
        ("details.md", "| RealFormer | 3 | 38", "| RealFormers | 3 | 38"),
        ("results.md", "| Pos., encoder | 3 | 41.31 |", "| Pos., encoder | 3 | 41.32 |"),
        ("runs.csv", ",41.8538,", ",41.8539,"),
        ("curves.csv", "afec5802,251,6.748,", "afec5802,251,6.749,"),
    )
    for path in (*pages, archive.RUNS, archive.CURVES):
        text = path.read_text(encoding="utf-8")
        for name, old, new in changes:
            if name == path.name:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    moved = {
        name: replace(table, page=tmp_path / table.page.name)
        for name, table in tables.TABLES.items()
    }
    monkeypatch.setattr(tables, "TABLES", moved)
    monkeypatch.setattr(archive, "RUNS", tmp_path / "runs.csv")
    monkeypatch.setattr(archive, "CURVES", tmp_path / "curves.csv")
    study = published_runs.Study(NOWHERE, tables.ROOT / "results/runs.csv")
    wrong = tables.check_all(study, published)
    assert len(wrong) == len(changes)
    for name, old, new in changes:
        (line,) = [one for one in wrong if f"/{name}:" in one and new in one.split(", the runs")[0]]
        assert old in line.split(", the runs say ")[1]


def test_tables_are_written_between_their_markers_and_nothing_else_is(tmp_path, monkeypatch):
    for page in (tables.SUMMARY, tables.DETAILS):
        text = page.read_text(encoding="utf-8").replace("| Baseline |", "| Base |")
        (tmp_path / page.name).write_text(f"{text}\nMine.\n", encoding="utf-8")
    moved = {
        name: replace(table, page=tmp_path / table.page.name)
        for name, table in tables.TABLES.items()
    }
    monkeypatch.setattr(tables, "TABLES", moved)
    monkeypatch.setattr(kept, "FILE", tmp_path / "kept.csv")
    before = (tables.ROOT / "results/kept.csv").read_bytes()
    kept.FILE.write_bytes(before)
    assert tables.main(["--data", str(NOWHERE)]) == 0
    assert kept.FILE.read_bytes() == before
    written = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert written == tables.SUMMARY.read_text(encoding="utf-8") + "\nMine.\n"


def test_a_page_without_the_markers_of_a_table_is_refused():
    good = "a\n\n<!-- table: ptb -->\n\n| x |\n\n<!-- end of table -->\nb"
    assert "| y |" in tables.between_markers(good, "ptb", "| y |\n", tables.DETAILS)
    for page in ("no table", good + good, good.replace("ptb", "logic")):
        with pytest.raises(UserError, match="needs one <!-- table: ptb -->"):
            tables.between_markers(page, "ptb", "| y |\n", tables.DETAILS)


def test_a_test_of_bleu_is_kept_for_machines_without_the_corpus():
    cells = kept.Kept({("t", "old row", "p"): "0.5", ("u", "row", "p"): "0.6"})
    assert cells.complete("t", "row", "p", kept.OfCorpus("0.1")) == "0.1"
    assert cells.complete("t", "row", "mean", "7") == "7"
    text = cells.to_csv(["t"])
    assert text.splitlines() == ["table,row,column,cell", "u,row,p,0.6", "t,row,p,0.1"]
    with pytest.raises(UserError, match="t: new: p: is not kept; prepare the corpus"):
        cells.complete("t", "new", "p", None)


def test_runs_keep_their_bytes_when_packed_and_unpacked(some, tmp_path):
    packed = archive.pack(archive.read_runs(some))
    (tmp_path / "runs.tar.xz").write_bytes(packed)
    archive.unpack(tmp_path / "again", tmp_path / "runs.tar.xz")
    for path in (path for path in some.rglob("*") if path.is_file()):
        assert (tmp_path / "again" / path.relative_to(some)).read_bytes() == path.read_bytes()
    raw = archive.read_runs(some)[1].folder  # a run folder before packing
    (raw / "checkpoint_best.pt").write_bytes(b"large")
    log, (heads,) = raw / "train.log", raw.glob("heads.*")
    lines = log.read_text().splitlines(keepends=True)
    step = '2026-11-22 | INFO | train_inner | {"epoch": 1, "num_updates": "100"}\n'
    log.write_text("".join(f"{step}2026-11-22 | INFO | valid | {line}" for line in lines))
    content = json.loads(heads.read_text())
    content |= {"coefficients": [1.0], "data": f"/home/me/clone/{content['data']}"}
    heads.write_text(json.dumps(content, indent=2))
    assert archive.pack(archive.read_runs(some)) == packed


def test_unpacking_does_not_replace_existing_runs(tmp_path, capsys):
    assert tables.main(["--unpack", str(tmp_path)]) == 0
    (own,) = tmp_path.glob("small/runs/multi30k.de-en.baseline.seed6.*")
    (own / "result.json").write_text("mine")
    (gone,) = tmp_path.glob("small/runs/multi30k.de-en.baseline.seed7.*")
    gone.rename(gone.with_name(f".{gone.name}.part"))  # an unpacking that was stopped
    (gone.with_name(f".{gone.name}.part") / "test.hyp.detok").unlink()
    assert tables.main(["--unpack", str(tmp_path)]) == 0
    assert (own / "result.json").read_text() == "mine" and (gone / "test.hyp.detok").is_file()
    assert not list(gone.parent.glob(".*"))
    assert capsys.readouterr().out.endswith("226 existed and are unchanged\n")


def test_bleu_is_tested_on_the_corpora_whose_reference_is_there(published, tmp_path, capsys):
    (folder,) = published.glob("small/runs/multi30k_small.de-en.baseline.seed12.*")
    with pytest.raises(UserError, match="test.de: is missing, so .*prepare-multi30k.sh, or give"):
        archive.reference_of(folder, tmp_path)
    raw, own = tmp_path / "multi30k/raw", tmp_path / folder.name
    raw.mkdir(parents=True)
    (raw / "test.de").write_text("Ein Hund .\n")
    (raw / "test.en").write_text("A dog .\n")
    shutil.copytree(folder, own)
    result = json.loads((own / "result.json").read_text())
    for recorded in (None, sha256_of(raw / "test.de")):  # older runs have no hash
        result["scores"]["test"]["source_sha256"] = recorded
        (own / "result.json").write_text(json.dumps(result))
        assert archive.reference_of(own, tmp_path) == raw / "test.en"
    result["scores"]["test"] |= {"source_sha256": "0" * 64, "data": "data/tatoeba/bin"}
    (own / "result.json").write_text(json.dumps(result))
    raw.parent.rename(tmp_path / "tatoeba")
    with pytest.raises(UserError, match="tatoeba/raw/test.de: is not the text .*BLEU of tatoeba"):
        archive.reference_of(own, tmp_path)
    assert tables.main(["tuned", "--data", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "| Baseline | 4 | 40.29 |  |  |  |" in out
    assert err.endswith("run data-prep/prepare-multi30k.sh, or give --data\n")
    assert len(err.splitlines()) == 1


def test_learning_curves_show_every_seed_of_a_row():
    rows = published_runs.Study(NOWHERE).rows(published_runs.TO_THE_END)
    picture = figures.learning_curves({label: rows[label] for label in ("Baseline", "CODA")})
    assert [axis.get_title() for axis in picture.axes] == ["Baseline", "CODA"]
    _, *curves = picture.axes[1].lines  # the first line marks zero
    assert len(curves) == len(rows["CODA"]) == 3
    text = archive.CURVES.read_text(encoding="utf-8")

    def first(run):
        return float(text.partition(f"\n{run.values['run']},")[2].split(",")[1])

    base = [first(run) for run in rows["Baseline"]]
    expected = first(rows["CODA"][0]) - sum(base) / len(base)
    assert curves[0].get_ydata()[0] == pytest.approx(expected)


def test_a_folder_without_runs_is_refused(some):
    with pytest.raises(UserError, match="--pack .*has no run of the study in small/runs; name"):
        archive.write(some / "small", NOWHERE)


def test_a_pack_that_would_lose_runs_or_measures_writes_nothing(some, monkeypatch, tmp_path):
    files = {name: tmp_path / name for name in ("ARCHIVE", "RUNS", "CURVES")}
    for name, path in files.items():
        shutil.copy(getattr(archive, name), path)
        monkeypatch.setattr(archive, name, path)
    before = {path: path.read_bytes() for path in files.values()}
    with pytest.raises(UserError, match=r"lacks \d+ of the published runs, such as .* --unpack"):
        archive.write(some, NOWHERE)
    head, *lines = files["RUNS"].read_text(encoding="utf-8").splitlines(keepends=True)
    here = [one.run.key for one in archive.read_runs(some)]
    kept = "".join([head, *(line for line in lines if line.partition(",")[0] in here)])
    files["RUNS"].write_text(kept, encoding="utf-8")
    before[files["RUNS"]] = files["RUNS"].read_bytes()
    (heads,) = some.glob("small/runs/ptb.hsic.seed1.*/heads.*.json")
    content = heads.read_bytes()
    heads.unlink()
    with pytest.raises(UserError, match=r"json: is missing; give .* study ptb .*--rows hs"):
        archive.write(some, NOWHERE)
    assert {path: path.read_bytes() for path in files.values()} == before
    heads.write_bytes(content)
    assert archive.write(some, NOWHERE).startswith("4 runs: ")
    assert files["ARCHIVE"].read_bytes() != before[files["ARCHIVE"]]


def test_a_row_missing_from_the_runs_is_reported(tmp_path):
    lines = archive.RUNS.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "runs.csv").write_text("".join(x for x in lines if ",ptb,all-three," not in x))
    study = published_runs.Study(NOWHERE, tmp_path / "runs.csv")
    wrong = [*tables.differences(tables.written(study, ["ptb"]))]
    assert any("'| All three | " in line.split(", the runs say")[0] for line in wrong)
