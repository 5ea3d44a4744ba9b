"""Learning curves: reading fairseq's logs, and the files that are written."""

import csv

import pytest

from diverse_mha.analysis.figures import style
from diverse_mha.common.errors import UserError
from diverse_mha.training import learning_curve
from diverse_mha.training.log import validations

JSON = (
    '{{"epoch": {epoch}, "{subset}_loss": "{loss}", "{subset}_ppl": "{ppl}", '
    '"{subset}_wps": "9", "{subset}_num_updates": "{updates}", "{subset}_best_loss": "1.5"}}'
)
SIMPLE = (
    "2026-01-02 03:04:05 | INFO | {subset} | epoch {epoch:03d} | valid on '{subset}' subset | "
    "loss {loss} | nll_loss 1.2 | ppl {ppl} | wps 9 | bsz 2 | num_updates {updates} | best_loss 1.5"
)
NOISE = [
    '{"epoch": 1, "train_loss": "6", "train_ppl": "64", "train_num_updates": "10"}',
    "2026-01-02 03:04:05 | INFO | train | epoch 001 | loss 6 | ppl 64 | num_updates 10",
    "{'valid_num_updates': 3, this is no JSON",
    'begin validation on "valid" subset',
]


def log(form, *points, subset="valid"):
    names = ("epoch", "updates", "loss", "ppl")
    return [form.format(subset=subset, **dict(zip(names, p, strict=True))) for p in points]


def points(lines, subset="valid"):
    names = ("epoch", "num_updates", "loss", "ppl")
    return [tuple(point[name] for name in names) for point in validations(lines, subset)]


OLDER = "| epoch" + SIMPLE.partition("| epoch")[2]


@pytest.mark.parametrize("form", [JSON, SIMPLE, OLDER, "[2026-01-02][valid][INFO] - " + JSON])
def test_validations_are_found_among_other_lines(form):
    lines = [*NOISE, *log(form, (1, 10, 3.0, 8.0)), *NOISE, *log(form, (2, 20, 2.0, 4.0))]
    lines += log(form, (2, 20, 9.0, 512.0), subset="valid1")
    assert points(lines) == [(1, 10, 3.0, 8.0), (2, 20, 2.0, 4.0)]
    assert points(lines, "valid1") == [(2, 20, 9.0, 512.0)]


def test_a_later_attempt_replaces_what_it_did_again():
    lines = log(JSON, (1, 10, 3.0, 8.0), (2, 20, 2.0, 4.0), (3, 30, 1.0, 2.0))
    lines += log(JSON, (2, 20, 2.5, 5.66), (3, 25, 1.0, 2.0))
    assert [point[1] for point in points(lines)] == [10, 20, 25]
    assert points(lines)[1][3] == 5.66


@pytest.mark.parametrize("form", [JSON, SIMPLE])
def test_a_line_that_is_cut_off_is_passed_over(form):
    line = log(form, (1, 10, 3.0, 8.0))[0]
    end = '"valid_num_updates"' if form == JSON else "num_updates"
    assert points([line[: line.index(end) + len(end)]]) == []


def test_table_and_plot_are_written(tmp_path, capsys):
    for name, form in (("one", JSON), ("two", SIMPLE)):
        (tmp_path / name).mkdir()
        lines = log(form, (1, 10, 3.0, 8.0), (2, 20, 2.0, 4.0))
        (tmp_path / name / "train.log").write_bytes(b"\xff\n" + "\n".join(lines).encode() + b"\n")
    words = [f"{tmp_path / 'one'}", f"second={tmp_path / 'two/train.log'}"]
    assert learning_curve.main([*words, "--output", f"{tmp_path / 'new/curve'}"]) == 0
    with open(tmp_path / "new/curve.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == dict(run="one", epoch="1", updates="10", loss="3.0", perplexity="8.0")
    assert [row["run"] for row in rows] == ["one", "one", "second", "second"]
    assert (tmp_path / "new/curve.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "new").iterdir())) == 2
    out = capsys.readouterr().out
    assert "second    2 validations, best perplexity     4.00 at update 20" in out


def test_every_name_is_in_the_legend_as_it_is(monkeypatch):
    figures, draw = [], style.drawn
    monkeypatch.setattr(style, "drawn", lambda p, form: figures.append(p.figure) or draw(p, form))
    point = {"num_updates": 1, "ppl": 2.0}
    names = ["_old", r"x$\alpha_$", "plain"]
    assert learning_curve.plot({name: [point] for name in names}).startswith(b"\x89PNG")
    legend = figures[0].axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == names


def test_what_it_wrote_among_the_runs_is_no_run(tmp_path, capsys):
    (tmp_path / "one").mkdir()
    (tmp_path / "one/train.log").write_text("\n".join(log(JSON, (1, 10, 3.0, 8.0))))
    stem = f"{tmp_path / 'curve'}"
    for _ in range(2):  # the second time, runs/* names curve.csv and curve.png too
        runs = sorted(map(str, tmp_path.iterdir()))
        assert learning_curve.main([*runs, "--output", stem]) == 0
        assert (tmp_path / "curve.csv").read_text().count("\n") == 2
    assert f"left out, for they are written here: {stem}.csv, {stem}.png" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"curve.csv: is where --output writes; name the runs"):
        learning_curve.main([f"{stem}.csv", "--output", stem])


def test_a_folder_is_no_beginning_of_a_file_name(tmp_path):
    for output in (f"{tmp_path}", f"{tmp_path / 'new'}/"):
        with pytest.raises(UserError, match=f"--output {output}: is a folder; give the beginning"):
            learning_curve.main([str(tmp_path), "--output", output])
