"""The papers' figures: which modules they show, and what becomes of those that cannot be drawn."""

from dataclasses import replace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from experiments import figures, fill, steps
from experiments.experiments import Experiment
from experiments.figures import draw
from experiments.papers import find
from experiments.runner import Runner

FIGURE = replace(
    find("yun2021", "figure-3"),
    curves=(("one", Experiment("ptb")), ("two", Experiment("ptb", method="hsic"))),
    panels=(("(a) both", ("one", "two")),),
    notes=("only this module",),
)
CHOICES = fill.Choices("small", (1, 2))


@pytest.fixture
def runner(place):
    return Runner(place)


def measured(runner, coefficients, choices=CHOICES):
    """Write what analyze says of the heads of both runs; return the runs' results."""
    layer = {"6": {"svcca": {"coefficients": {"1-2": coefficients}}}}
    components = {name: {"depth": 6, "layers": layer} for name in ("encoder", "cross", "decoder")}
    found = {}
    for need in fill.needs_of(FIGURE, FIGURE.rows, choices):
        file = steps.heads_file(need, runner.place)
        write_json(file, {"models": [{"name": "a checkpoint", "components": components}]})
        found[need.run] = {}
    assert len(found) == 2, "a figure shows one seed"
    return found


def test_coefficients_are_of_the_encoder_decoder_attention_alone(runner, tmp_path, capsys):
    found = measured(runner, [0.9, 0.5, 0.1])
    assert draw(FIGURE, CHOICES, found, runner, tmp_path / "figures")
    (picture,) = tmp_path.glob("figures/*.svg")
    assert picture.name in capsys.readouterr().out
    drawn = picture.read_text()
    assert "<!-- encoder-decoder attention -->" in drawn
    assert "self-attention" not in drawn
    assert "small scale: not the paper" in drawn and "<!-- one -->" in drawn
    assert "only this module" in (tmp_path / "figures/figure.md").read_text()


def test_a_curve_that_is_missing_is_named(runner, tmp_path, capsys):
    """A table has a dash there; collected, both are what there is and no failure."""
    found = measured(runner, [0.9, 0.5, 0.1])
    found.popitem()
    assert not draw(FIGURE, CHOICES, found, runner, tmp_path)
    said = "Missing, as not finished or not measured: two."
    assert said in (tmp_path / "figure.md").read_text() and said in capsys.readouterr().out
    assert draw(FIGURE, CHOICES, found, replace(runner, collect=True), tmp_path)
    assert "<!-- two -->" not in next(tmp_path.glob("*.svg")).read_text()
    assert not draw(FIGURE, CHOICES, {}, runner, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_pictures_of_earlier_curves_go_and_no_others(runner, tmp_path):
    earlier = {"figure.md": "![a](old.png)\n", "old.png": "", "old.svg": "", "mine.png": ""}
    for name, content in earlier.items():
        (tmp_path / name).write_text(content)
    assert draw(FIGURE, CHOICES, measured(runner, [0.9, 0.5, 0.1]), runner, tmp_path)
    assert not list(tmp_path.glob("old.*")) and (tmp_path / "mine.png").exists()


def test_runs_without_measured_heads_are_said_to_be_the_reason(runner, tmp_path):
    found = dict.fromkeys(measured(runner, [0.9]), {})
    for file in runner.place.out.rglob("*.json"):
        file.unlink()
    with pytest.raises(UserError, match="nothing to draw: no run is finished with its heads meas"):
        draw(FIGURE, CHOICES, found, replace(runner, collect=True), tmp_path)


def test_a_figure_without_anything_in_it_is_refused(runner, tmp_path):
    found = measured(runner, [])
    with pytest.raises(UserError, match="nothing to draw; the runs have too few heads"):
        draw(FIGURE, CHOICES, found, runner, tmp_path)


@pytest.mark.parametrize("fork", [True, False])
def test_a_map_of_heads_is_measured_where_the_runs_are(fork, runner, tmp_path, monkeypatch):
    def stop(paths, data, selection, *, cpu):
        raise UserError(f"cpu {cpu}")

    monkeypatch.setattr(figures, "open_models", stop)
    figure = find("li2021", "figure-3")
    needs = fill.needs_of(figure, figure.rows, CHOICES)
    found = {run: {} for need in needs for run in need.runs}
    with pytest.raises(UserError, match=f"cpu {fork}"):
        draw(figure, CHOICES, found, replace(runner, fork=fork), tmp_path)
    with pytest.raises(UserError, match="left out: .*--collect measures nothing"):
        draw(figure, CHOICES, found, replace(runner, collect=True, fork=fork), tmp_path)
