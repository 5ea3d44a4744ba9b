"""The papers' figures, drawn from made-up numbers."""

import csv
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from experiments import figures
from experiments.figures import KINDS, RUNS_MODELS, RowData
from experiments.numbers import Choices, plan_table
from experiments.papers import PAPERS
from tests.integration.conftest import run

DRAWN = {(t.paper, t.name): t for items in PAPERS.values() for t in items.values() if t.draw}


def model(name, seed, layers=2, heads=4):
    """Return made-up results of a model, in the form that ``diverse-mha analyze`` writes."""
    random = np.random.default_rng(seed)

    def layer():
        pairs = random.uniform(1, 9, (heads, heads))
        coefficients = {
            f"{i}-{j}": sorted(random.uniform(0, 1, 16), reverse=True)
            for i in range(heads)
            for j in range(i)
        }
        pairs = (pairs + pairs.T).tolist()
        jsd = {"mean": 5.0, "per_row": 0.3, "pairs": pairs, "pairs_per_row": pairs}
        svcca = {"mean": 0.5, "top_mean": 0.6, "pairs": pairs, "pairs_top": pairs}
        svcca |= {"coefficients": coefficients, "kept": [16] * heads, "threshold": 0.99}
        return {"jsd": jsd, "svcca": svcca}

    components = {
        c: {
            "heads": heads,
            "positions": 100,
            "layers": {str(n): layer() for n in range(1, layers + 1)},
        }
        for c in ("encoder", "cross", "decoder")
    }
    against = {c: {"coefficients": sorted(random.uniform(0, 1, 30))[::-1]} for c in components}
    entry = {"name": name, "checkpoint": "x.pt", "architecture": "transformer_disagree"}
    return entry | {"components": components, "against": against}


def rows_of(table):
    """Return made-up numbers for all rows of a figure, in the form that ``figures.draw`` takes."""
    return [
        RowData(
            row.name,
            row.label,
            {c: (50.0 + 3 * n + 2 * k, 0.7, cell.paper) for k, (c, cell) in enumerate(
                zip(table.columns, row.cells, strict=True))},
            {c: model(row.label, 10 * n + k) for k, c in enumerate(table.columns)},
        )
        for n, row in enumerate(table.rows)
    ]  # fmt: skip


def draw(table, rows, folder):
    return figures.draw(table, rows, "made up", folder, table.name)


def test_every_figure_of_the_papers_has_a_table():
    expected = [("li2021", 3), ("li2021", 4)]
    expected += [("yun2021", n) for n in (1, 2, 3, 4)] + [("zheng2021", n) for n in (2, 3, 4, 5, 6)]
    assert sorted(DRAWN) == [(paper, f"figure-{n}") for paper, n in expected]
    assert {table.draw for table in DRAWN.values()} == set(KINDS)
    for table in DRAWN.values():
        names = {row.name for row in table.rows}
        assert all(names.issuperset(rows) for rows in table.panels.values())


@pytest.mark.parametrize("key", [k for k, t in DRAWN.items() if t.draw not in figures.RUNS_MODELS],
                         ids="-".join)  # fmt: skip
def test_a_figure_is_drawn_and_its_points_are_written(key, tmp_path):
    table = DRAWN[key]
    files = draw(table, rows_of(table), tmp_path)
    pictures = [path for path in files if path.suffix == ".png"]
    assert pictures and len(files) == 3 * len(pictures)
    for path in pictures:
        with Image.open(path) as picture:
            assert min(picture.size) > 200
        assert path.stat().st_size < 100_000
        drawing = path.with_suffix(".svg").read_text()
        # Labels are drawn as paths; SVG comments have the text of the labels.
        assert drawing.startswith("<?xml") and "<!-- " in drawing
        assert "made up" in drawing, "the caption is drawn"
        points = [*csv.reader(io.StringIO(path.with_suffix(".points.csv").read_text()))]
        assert len(points) > 1 and len({len(line) for line in points}) == 1


def test_written_points_are_the_numbers_in_the_figure(tmp_path):
    table = DRAWN["zheng2021", "figure-3"]
    draw(table, rows_of(table), tmp_path)
    first = [*csv.DictReader((tmp_path / "figure-3.points.csv").open())][0]
    assert first["heads"] == "4" and first["Transformer BLEU"] == "50.0"
    assert first["CODA BLEU, paper"] == "35.65"

    table = DRAWN["yun2021", "figure-4"]
    drawn = rows_of(table)
    draw(table, drawn, tmp_path)
    rows = [*csv.DictReader((tmp_path / "figure-4.points.csv").open())]
    row = next(r for r in drawn if r.name == "drophead-0.3")
    pairs = next(iter(row.heads.values()))["components"]["cross"]["layers"]["2"]["svcca"]
    expected = np.mean([*pairs["coefficients"].values()], axis=0)
    got = [float(r["coefficient"]) for r in rows if r["line"] == row.label]
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_rows_without_results_are_left_out(tmp_path):
    table = DRAWN["zheng2021", "figure-4"]
    missing = RowData("coda", "CODA", {"average JSD": (None, None, 13.72)}, {"average JSD": None})
    files = draw(table, [missing, *rows_of(table)[1:]], tmp_path)
    assert {path.name.split(".")[0] for path in files} == {
        "figure-4-coda-cs",
        "figure-4-realformer",
        "figure-4-transformer",
    }


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (("zheng2021", "figure-4"), "no heads are measured.* without --collect"),
        (("yun2021", "figure-3"), "no heads are measured"),
        (("yun2021", "figure-1"), "published runs have none"),
        (("li2021", "figure-3"), "published runs have none"),
    ],
)
def test_a_figure_without_data_is_an_error(key, message, tmp_path):
    table = DRAWN[key]
    rows = [RowData(row.name, row.label, {}, dict.fromkeys(table.columns)) for row in table.rows]
    with pytest.raises(UserError, match=message):
        draw(table, rows, tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.filterwarnings("error")
def test_a_panel_without_finished_runs_is_drawn_without_a_legend(tmp_path):
    table = DRAWN["yun2021", "figure-3"]
    finished = set(next(iter(table.panels.values())))  # rows of the first panel only
    rows = [row for row in rows_of(table) if row.name in finished]
    assert draw(table, rows, tmp_path)


#: Paper -> figure -> the rows that are trained at the smoke scale. Figures share runs.
FEW_ROWS = {
    "li2021": {3: "none,out", 4: "baseline"},
    "yun2021": {1: "1h,8h", 2: "enc-self", 3: "2h-512d", 4: "baseline"},
    "zheng2021": {2: "coda", 3: "heads-4", 4: "coda,transformer", 5: "coda", 6: "transformer"},
}


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("paper", FEW_ROWS)
def test_one_command_trains_models_and_draws_their_figure(paper, local_table, tmp_path):
    assert {f"figure-{number}" for number in FEW_ROWS[paper]} == {f for p, f in DRAWN if p == paper}
    shutil.copytree(local_table / "smoke/data", tmp_path / "smoke/data")
    for number, rows in FEW_ROWS[paper].items():
        name, count = f"figure-{number}", len(rows.split(","))
        arguments = ["--scale", "smoke", "--rows", rows, "--updates", "2", "--out", tmp_path]
        done = run("diverse_mha.cli", "reproduce", paper, name, *arguments, cwd=tmp_path)
        files = [*(tmp_path / "smoke/tables").glob(f"{paper}-{name}-rows-2-updates*.points.csv")]
        assert len(files) == (count if DRAWN[paper, name].draw == "divergence-maps" else 1)
        for file in files:
            stem = str(file).removesuffix(".points.csv")
            assert f"{stem}.png" in done.stdout and Path(f"{stem}.svg").is_file()
            points = [*csv.DictReader(file.open())]
            assert points and all(value for point in points for value in point.values())
        if DRAWN[paper, name].draw in RUNS_MODELS:
            assert len({point["row"] for point in points}) == count


def test_a_figure_that_cannot_be_drawn_fails_after_its_table(tmp_path, capsys):
    """The table is written, so the other tables of a paper go on."""
    for need in plan_table(DRAWN["yun2021", "figure-1"], Choices("smoke")).needs.values():
        result = {"scores": {"test": {"bleu": 1.0, "sacrebleu": 1.0}}, "versions": {}}
        write_json(need.run.folder(tmp_path) / "result.json", result)
    arguments = ["--scale", "smoke", "--collect", "--out", str(tmp_path)]
    assert cli.run(["reproduce", "yun2021", "figure-1", *arguments]) == 1
    out = capsys.readouterr().out
    assert "figure-1: FAILED: " in out and "checkpoint_best.pt: is missing" in out
    assert (tmp_path / "smoke/tables/yun2021-figure-1.md").is_file()


def test_collecting_a_damaged_result_fails_and_writes_the_other_rows(tmp_path, capsys):
    needs = [*plan_table(PAPERS["yun2021"]["table-7"], Choices("smoke")).needs.values()]
    result = {"scores": {"test": {"perplexity": 9.0}}, "versions": {}}
    for need in needs:
        write_json(need.run.folder(tmp_path) / "result.json", result)
    arguments = ["--scale", "smoke", "--collect", "--out", str(tmp_path)]
    assert cli.run(["reproduce", "yun2021", "table-7", *arguments]) == 0
    (needs[0].run.folder(tmp_path) / "result.json").write_text("{}")
    assert cli.run(["reproduce", "yun2021", "table-7", *arguments]) == 1
    assert "has no scores; delete it and run again" in capsys.readouterr().out
    assert "9.00" in (tmp_path / "smoke/tables/yun2021-table-7.md").read_text()
