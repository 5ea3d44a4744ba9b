"""``analyze --measures importance``: tables, CSV and page of a checkpoint."""

import csv
import json

import pytest

from diverse_mha.cli import run

pytestmark = pytest.mark.integration


def test_every_head_is_in_the_numbers_and_the_tables(save, data, tmp_path, capsys):
    paths = [str(save("first", "transformer_disagree")), str(save("coda", "transformer_coda"))]
    words = ["--measures", "importance,importance-gradient", "--cpu"]
    assert run(["analyze", *paths, str(data), *words, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("Importance of heads, 10 strongest and 10 weakest (loss ") == 2
    assert "Without one head the loss rises significantly for " in out
    assert "Rank correlation (Spearman)" in out and "zeros replace its output" in out
    models = json.loads((tmp_path / "scores.json").read_text())["models"]
    assert models[0]["importance"]["of"] == "zero" and models[0]["importance"]["tokens"] > 40
    with open(tmp_path / "heads.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 2 * 4 and "entropy" not in rows[0]
    layer = models[0]["components"]["encoder"]["layers"]["1"]
    assert float(rows[1]["importance"]) == layer["importance"]["heads"][1]
    assert float(rows[1]["low"]) < float(rows[1]["importance"]) < float(rows[1]["high"])
    assert float(rows[1]["p_holm"]) >= layer["importance"]["p"][1]
    page = (tmp_path / "report.html").read_text()
    assert "rise of the loss without the head" in page, "the maps of the view"
    assert "first: Without one head" in page, "the headline"
