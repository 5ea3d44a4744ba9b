"""Values, scales and file names of the figures."""

from types import SimpleNamespace

import pytest

from diverse_mha.analysis.figures import (
    CELL,
    colour_limit,
    comparison_maps,
    curves_of_models,
    heat_maps,
)
from diverse_mha.analysis.report import all_plots
from diverse_mha.analysis.results import Component, Model


def result(name, value, heads=2, measure="cka", count=2):
    pairs = [[1.0 if i == j else value for j in range(heads)] for i in range(heads)]
    similarity = SimpleNamespace(mean=value, pairs=pairs, coefficients={})
    layers = {n: {measure: similarity} for n in ("1", "2")[:count]}
    components = {"encoder": Component(heads, 30, layers)}
    return Model(name, f"{name}.pt", "a", 9, components, {measure: {}})


def maps_of(plot):
    return [axis for axis in plot.figure.axes if axis.images and axis.get_title()]


@pytest.mark.parametrize("measure", ["cka", "svcca", "jsd"])
def test_colour_limit_is_the_largest_value_of_all_models(measure):
    models = [result("one", 0.5, measure=measure), result("two", 0.8, measure=measure)]
    end = colour_limit(models, measure)
    for model, value in zip(models, (0.5, 0.8), strict=True):
        (image,) = maps_of(heat_maps(model, measure, end))[0].images
        assert image.get_clim() == (0, 0.8)
        shown = image.get_array()
        assert shown[0, 1] == value and shown.mask[0, 0], "the diagonal does not count"


@pytest.mark.parametrize("count", [1, 2])
def test_maps_are_as_wide_as_their_layers(count):
    one, two = result("one", 0.5, count=count), result("two", 0.8, count=count)
    for plot in (heat_maps(one, "cka", 1.0), *comparison_maps(one, two, "cka", 1.0)):
        assert count < plot.figure.get_figwidth() / CELL < count + 1


@pytest.mark.parametrize(
    "value,text",
    [(118, "118"), (123.4, "123"), (-99.6, "-100"), (99.4, "99"), (0.25, ".25"), (-0.5, "-.5")],
)
def test_values_of_100_and_more_have_all_digits_before_the_point(value, text):
    (axis, _) = maps_of(heat_maps(result("one", value, measure="jsd"), "jsd", 200.0))
    assert {cell.get_text() for cell in axis.texts} == {text}
    assert axis.get_title().endswith(f"mean {text.replace('.', '0.')}")


def test_coefficient_curve_averages_pairs_of_unequal_length():
    pairs = {"1-2": [0.9, 0.5, 0.3], "1-3": [0.5], "2-3": []}
    layer = {"svcca": SimpleNamespace(coefficients=pairs)}
    components = {"encoder": Component(3, 9, {"1": {}, "2": layer})}
    found = Model("m", "m.pt", "a", 9, components, {})
    (line,) = curves_of_models([found]).figure.axes[0].lines
    assert line.get_ydata() == pytest.approx([0.7, 0.5, 0.3])


def test_figures_have_different_file_names():
    plots = all_plots([result("a/b", 0.5), result("A-b", 0.5)])
    names = ["cka-encoder-beside", "cka-a-b", "cka-A-b-2"]
    assert [plot.name for _, plot in plots] == names
