"""Formats of tables, with the papers' numbers beside ours."""

import csv
import io
import json

import pytest

from diverse_mha.common.tables import to_csv, to_latex, to_markdown, to_text
from experiments.numbers import Choices, Number
from experiments.papers import Cell, Experiment, Row, Table
from experiments.printer import SMOKE, lay_out, to_json, write_all

E = Experiment("ptb")
TABLE = Table(
    paper="li2018",
    name="table-9",
    title="100% made up",
    columns=("speed", "BLEU", "parameters"),
    rows=tuple(
        Row(name, label, (Cell(E, "speed", 1.0), Cell(E, "bleu", 1.0), Cell(E, "parameters", 1.0)))
        for name, label in (("none", "Base"), ("out", "+ Out_1"))
    ),
)
FILLED = [
    (
        TABLE.rows[0],
        [
            Number("speed", 2.0, (4.0, 6.0)),
            Number("bleu", 24.13, (30.0, 32.0), seeds=(1, 2)),
            Number("parameters", 88e6, (5_987_654.0, 5_987_654.0)),
        ],
    ),
    (TABLE.rows[1], [Number("speed", 1.5, (4.0,)), Number("bleu", 24.78, ()), None]),
]
HEADINGS = (
    *("", "speed, paper", "speed, ours"),
    *("BLEU, paper", "BLEU, ours", "parameters, paper", "parameters, ours"),
)


@pytest.fixture
def layout():
    results = [{"scores": {"test": {"tokenised_signature": "nrefs:1"}}}, {"scores": {}}]
    return lay_out(TABLE, FILLED, Choices("smoke"), results)


def test_the_papers_numbers_are_beside_ours(layout):
    assert layout.headings == HEADINGS
    # 4 and 6 have mean 5 and standard deviation sqrt(2).
    base = ("Base", "2.00", "5.00 ± 1.41", "24.13", "31.00 ± 1.41", "88.00M", "5.99M")
    assert layout.lines == (base, ("+ Out_1", "1.50", "4.00", "24.78", "-", "", ""))


def test_a_measure_without_published_numbers_has_one_column():
    filled = [(TABLE.rows[0], [*FILLED[0][1][:2], Number("parameters", None, (9e6,))])]
    found = lay_out(TABLE, filled, Choices("small"))
    assert found.headings[-3:] == ("BLEU, paper", "BLEU, ours", "parameters, ours")
    assert found.lines[0][-1] == "9.00M"


def test_notes_say_how_far_numbers_can_be_compared(layout):
    assert SMOKE in layout.notes and "mean nothing" in SMOKE
    for text in (to_text(layout), to_markdown(layout), to_latex(layout, "tab:t")):
        assert "mean nothing" in text
    assert SMOKE not in lay_out(TABLE, FILLED, Choices("paper")).notes
    for bf16, note in ((True, "in bfloat16"), (False, "in float32,")):
        assert note in " ".join(lay_out(TABLE, FILLED, Choices("paper", bf16=bf16)).notes)
    trial = lay_out(TABLE, FILLED, Choices("paper", updates=2000))
    assert trial.notes[0].endswith("after 2,000 updates.")
    assert "not with the paper's" in " ".join(lay_out(TABLE, FILLED, Choices("small")).notes)
    assert "BLEU: tokenised nrefs:1" in layout.notes
    assert "Ours: mean and standard deviation over 1 to 2 seeds." in layout.notes


def test_csv_and_markdown_have_all_cells(layout):
    rows = list(csv.reader(io.StringIO(to_csv(layout))))
    assert tuple(rows[0]) == HEADINGS and [tuple(row) for row in rows[1:]] == list(layout.lines)
    lines = [line for line in to_markdown(layout).splitlines() if line.startswith("|")]
    assert len(lines) == 4 and {line.count("|") for line in lines} == {len(HEADINGS) + 1}


def test_latex_has_all_cells_escaped(layout):
    text = to_latex(layout, "tab:li2018-table-9")
    assert r"\label{tab:li2018-table-9}" in text and text.count(r"\midrule") == 1
    assert r"100\% made up" in text and r"+ Out\_1" in text and r"$\pm$" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in body} == {len(HEADINGS) - 1}
    assert r"\begin{tabular}{l" + "r" * (len(HEADINGS) - 1) + "}" in text


def test_a_table_is_written_in_four_formats(layout, tmp_path):
    files = write_all(layout, tmp_path / "new", "t", to_json(layout, FILLED))
    assert sorted(path.name for path in files) == ["t.csv", "t.json", "t.md", "t.tex"]
    numbers = json.loads((tmp_path / "new/t.json").read_text())["rows"]
    kept = {"measure": "bleu", "paper": 24.13, "ours": [30.0, 32.0], "seeds": [1, 2]}
    kept["mark"] = ""
    assert numbers["none"][1] == kept
    assert numbers["out"][2] is None
