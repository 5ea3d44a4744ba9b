"""What is in the figures: values, scales, and names of files."""

import pytest

from diverse_mha.analysis.figures.curves import curves_of_models
from diverse_mha.analysis.figures.heat_maps import beside_maps, end_of_scale, heat_maps
from diverse_mha.analysis.output import all_plots


def result(name, value, heads=2, measure="cka"):
    pairs = [[1.0 if i == j else value for j in range(heads)] for i in range(heads)]
    layers = {n: {measure: {"mean": value, "pairs": pairs}} for n in ("1", "2")}
    entry = {"heads": heads, "positions": 30, "layers": layers}
    return {"name": name, "components": {"encoder": entry}, "summary": {measure: {}}}


def maps_of(plot):
    return [axis for axis in plot.figure.axes if axis.images and axis.get_title()]


@pytest.mark.parametrize("measure", ["cka", "svcca", "jsd"])
def test_colours_end_at_the_largest_value_of_all_models(measure):
    models = [result("one", 0.5, measure=measure), result("two", 0.8, measure=measure)]
    end = end_of_scale(models, measure)
    for model, value in zip(models, (0.5, 0.8), strict=True):
        (image,) = maps_of(heat_maps(model, measure, end))[0].images
        assert image.get_clim() == (0, 0.8)
        shown = image.get_array()
        assert shown[0, 1] == value and shown.mask[0, 0], "the diagonal says nothing"


def test_one_head_has_no_heat_map_and_six_layers_are_a_row():
    single = result("one", 1.0, heads=1)
    assert heat_maps(single, "cka", end_of_scale([single], "cka")) is None
    both = result("two", 0.5)
    layers = both["components"]["encoder"]["layers"]
    layers |= {str(n): layers["1"] for n in range(3, 9)}
    both["components"] = {**single["components"], "decoder": both["components"]["encoder"]}
    figure = heat_maps(both, "cka", 0.5).figure
    assert [axis.get_title() for axis in figure.axes if axis.images] == [
        f"layer {n}, mean 0.5" for n in range(1, 9)
    ]
    labels = [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()]
    assert labels[:2] == ["decoder self-attention\nhead"] * 2


@pytest.mark.parametrize(
    ("change", "title", "cell"),
    [(0.35, "0.35", ".35"), (0.03, "0.03", ".03"), (0.002, "0.002", ".002")],
)
def test_two_models_beside_each_other(change, title, cell):
    long = "a long name of the second model, fifty letters"
    models = [result("one", 0.2), result(long, 0.2 + change)]
    (plot,) = beside_maps(*models, "cka", 0.55)
    assert plot.name == "cka-encoder-beside" and len(maps_of(plot)) == 3 * 2
    difference = maps_of(plot)[4]
    assert difference.get_title() == f"\nlayer 1, mean {title}"
    assert difference.images[0].get_array()[0, 1] == pytest.approx(change)
    assert difference.images[0].get_clim() == (pytest.approx(-change), pytest.approx(change))
    assert difference.texts[0].get_text() == cell
    plot.figure.draw_without_rendering()
    names = [axis.texts[-1] for axis in maps_of(plot)[::2]]
    assert [name.get_text() for name in names] == [*(m["name"] for m in models), "difference"]
    for name in names:
        box, page = name.get_window_extent(), plot.figure.bbox
        assert box.x0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1
    assert beside_maps(models[0], result("two", 0.5, heads=3), "cka", 1) == []


def test_a_pair_with_few_coefficients_does_not_cut_the_others():
    pairs = {"1-2": [0.9, 0.5, 0.3], "1-3": [0.5], "2-3": []}
    layer = {"svcca": {"coefficients": pairs}}
    found = {"name": "m", "components": {"encoder": {"layers": {"1": {}, "2": layer}}}}
    (line,) = curves_of_models([found]).figure.axes[0].lines
    assert line.get_ydata() == pytest.approx([0.7, 0.5, 0.3])


def test_the_legend_has_every_model_and_no_two_look_alike():
    entry = {"layers": {"1": {"svcca": {"coefficients": {"1-2": [0.9, 0.5]}}}}}
    models = [
        {"name": f"m{n}", "components": {"decoder" if n else "encoder": entry}} for n in range(12)
    ]
    (legend,) = curves_of_models(models).figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"m{n}" for n in range(12)]
    assert len({(line.get_color(), line.get_linestyle()) for line in legend.get_lines()}) == 12


def test_no_figure_overwrites_another():
    plots = all_plots([result("a/b", 0.5), result("A-b", 0.5)])
    names = ["cka-encoder-beside", "cka-a-b", "cka-A-b-2"]
    assert [plot.name for _, plot in plots] == names
