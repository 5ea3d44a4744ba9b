"""The papers' figures: what they are drawn of, and what becomes of those that cannot be drawn."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from experiments import figures, fill
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
def runner(place, monkeypatch):
    """A runner whose models have some coefficients, of pairs of heads and against another model."""

    def analyze(loaded, selection, *, name, against):
        layers = {"6": {"svcca": {"coefficients": {"1-2": loaded}}}}
        other = {part: {"coefficients": [0.8, 0.2]} for part in ("encoder", "decoder")}
        result = {
            "name": name,
            "components": {"cross": {"depth": 6, "layers": layers}},
            "against": other,
        }
        return SimpleNamespace(result=result)

    def open_models(paths, data, selection, *, against, cpu):
        return [coefficients for _ in paths], against

    coefficients = [0.9, 0.5, 0.1]
    monkeypatch.setattr(figures, "open_models", open_models)
    monkeypatch.setattr(figures, "analyze", analyze)
    runner = Runner(place)
    runner.coefficients = coefficients
    return runner


def found_of(figure):
    needs = fill.needs_of(figure, figure.rows, CHOICES)
    return {run: {} for need in needs for run in need.runs}


def test_the_curves_of_a_panel_are_in_one_picture_and_the_notes_on_its_page(
    runner, tmp_path, capsys
):
    found = found_of(FIGURE)
    assert len(found) == 2, "a figure shows one seed"
    assert draw(FIGURE, CHOICES, found, runner, tmp_path / "figures")
    (picture,) = tmp_path.glob("figures/*.svg")
    assert picture.name in capsys.readouterr().out
    drawn = picture.read_text()
    assert "<!-- encoder-decoder attention -->" in drawn
    assert "<!-- one -->" in drawn and "<!-- two -->" in drawn
    assert "only this module" in (tmp_path / "figures/figure.md").read_text()


def test_a_model_beside_another_is_drawn_by_component(runner, tmp_path):
    figure = replace(find("yun2021", "figure-2"), curves=FIGURE.curves, against=Experiment("ptb"))
    assert draw(figure, CHOICES, found_of(figure), runner, tmp_path)
    (picture,) = tmp_path.glob("*.svg")
    assert "<!-- encoder self-attention -->" in picture.read_text()
    assert "single-head model" in (tmp_path / "figure.md").read_text()


def test_a_curve_that_is_missing_is_named(runner, tmp_path, capsys):
    """A table has a dash there; collected, both are what there is and no failure."""
    found = found_of(FIGURE)
    found.popitem()
    assert not draw(FIGURE, CHOICES, found, runner, tmp_path)
    said = "Missing, as not finished: two."
    assert said in (tmp_path / "figure.md").read_text() and said in capsys.readouterr().out
    assert draw(FIGURE, CHOICES, found, replace(runner, collect=True), tmp_path)
    assert "<!-- two -->" not in next(tmp_path.glob("*.svg")).read_text()
    assert not draw(FIGURE, CHOICES, {}, runner, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_figure_without_anything_in_it_is_refused(runner, tmp_path):
    runner.coefficients.clear()
    with pytest.raises(UserError, match="nothing to draw; the runs have too few heads"):
        draw(FIGURE, CHOICES, found_of(FIGURE), runner, tmp_path)
