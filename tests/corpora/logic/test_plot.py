"""The table and the plot of accuracy by length."""

import csv
import json

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.logic import plot


def write(path, accuracies, pairs=10):
    path.parent.mkdir(exist_ok=True)
    subsets = {
        f"test{n}": {"examples": pairs * n, "accuracy": accuracy, "majority": 50.0}
        for n, accuracy in accuracies.items()
    }
    path.write_text(json.dumps({"subsets": {"valid": {"accuracy": 1.0}, **subsets}}))
    return path


def test_table_and_plot(tmp_path, capsys):
    first = write(tmp_path / "plain" / "r.json", {10: 60.0, 2: 90.0})
    second = write(tmp_path / "other" / "r.json", {2: 80.0, 10: 70.5})
    arguments = [str(first), f"ours={second}", "--output", str(tmp_path / "out")]
    plot.main(arguments)
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["operators", "pairs", "most frequent relation", "plain", "ours"]
    assert rows[2:7] == [
        ["2", "20", "50.00", "90.00", "80.00"],
        ["10", "100", "50.00", "60.00", "70.50"],
        ["1-6", "20", "50.00", "90.00", "80.00"],
        ["7-12", "100", "50.00", "60.00", "70.50"],
        ["all", "120", "50.00", "65.00", "72.08"],  # (20 * 80 + 100 * 70.5) / 120
    ]
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        f"logic.{e}" for e in ("md", "csv", "png", "svg")
    }
    assert (out / "logic.csv").read_text().splitlines()[1:] == [
        "2,20,50.00,90.00,80.00",
        "10,100,50.00,60.00,70.50",
    ]
    assert (out / "logic.png").read_bytes().startswith(b"\x89PNG")
    drawn = (out / "logic.svg").read_bytes()
    plot.main(arguments)
    assert (out / "logic.svg").read_bytes() == drawn  # the same file from the same results


def test_a_name_with_a_comma_is_one_column(tmp_path):
    result = write(tmp_path / "r" / "r.json", {1: 60.0, 10: 50.0})
    plot.main([f'a|b, "both"={result}', "--output", str(tmp_path / "out")])
    with open(tmp_path / "out/logic.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["operators", "pairs", "most frequent relation", 'a|b, "both"']
    assert [len(row) for row in rows] == [4, 4, 4]
    assert r'| a\|b, "both" |' in (tmp_path / "out/logic.md").read_text()


def test_what_is_no_result_is_refused(tmp_path):
    good = write(tmp_path / "a" / "r.json", {1: 90.0})
    for path, text in (("b.json", "{}"), ("c.json", "no JSON"), ("d.json", '{"subsets": []}')):
        (tmp_path / path).write_text(text)
        with pytest.raises(UserError, match=f"{path}: no accuracies of test1, test2"):
            plot.read_named([str(good), str(tmp_path / path)])
    with pytest.raises(UserError, match="e.json: no such result file"):
        plot.read_named([str(tmp_path / "e.json")])
    with pytest.raises(UserError, match="a second model called a; give NAME=FILE"):
        plot.read_named([str(good), str(good)])
    other = write(tmp_path / "f" / "r.json", {1: 90.0}, pairs=11)
    with pytest.raises(UserError, match="not over the same test pairs as a"):
        plot.read_named([str(good), str(other)])
