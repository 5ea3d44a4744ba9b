"""What is in the figures: sizes, scales, and names of files."""

import math

import pytest
import torch

from diverse_mha.analysis.figures import tsne
from diverse_mha.analysis.figures.beside import beside_maps
from diverse_mha.analysis.figures.curves import curves_of_layers, curves_of_models
from diverse_mha.analysis.figures.heat_maps import heat_maps
from diverse_mha.analysis.figures.style import DPI, drawn
from diverse_mha.analysis.figures.tsne import head_map
from diverse_mha.analysis.output import _with_own_names


def result(heads, pairs, measure, name="model"):
    layers = {"1": {measure: {"mean": 0.5, "per_row": 0.5 / 3, "pairs": pairs}}}
    entry = {"heads": heads, "positions": 30, "layers": layers}
    return {"name": name, "sentences": 10, "components": {"encoder": entry}}


@pytest.mark.parametrize("measure,limit", [("cka", 1.0), ("svcca", 1.0), ("jsd", 3 * math.log(2))])
def test_colours_end_at_the_largest_value_there_could_be(measure, limit):
    figure = heat_maps(result(2, [[1, 0.5], [0.5, 1]], measure), measure).figure
    (image,) = figure.axes[0].images
    assert image.get_clim() == (0, pytest.approx(limit))
    shown = image.get_array()
    assert shown[0, 1] == 0.5 and shown.mask[0, 0], "the diagonal says nothing"


def test_one_head_has_no_heat_map():
    single = result(1, [[1.0]], "cka")
    assert heat_maps(single, "cka") is None
    both = result(2, [[1, 0.5], [0.5, 1]], "cka")
    both["components"] = single["components"] | {"decoder": both["components"]["encoder"]}
    axes = [axis for axis in heat_maps(both, "cka").figure.axes if axis.images]
    assert [axis.get_ylabel() for axis in axes] == ["decoder self-attention\nhead"]


def two_layers(name, value, heads=2):
    pairs = [[1.0 if i == j else value for j in range(heads)] for i in range(heads)]
    layers = {n: {"cka": {"mean": value, "pairs": pairs}} for n in ("1", "2")}
    entry = {"heads": heads, "positions": 30, "layers": layers}
    return {"name": name, "sentences": 10, "components": {"encoder": entry}}


def test_two_models_beside_each_other():
    (plot,) = beside_maps(two_layers("one", 0.2), two_layers("two", 0.55), "cka")
    assert plot.name == "cka-encoder-beside"
    maps = [axis for axis in plot.figure.axes if axis.get_title()]
    assert [axis.get_title().strip() for axis in maps[::2]] == [
        "layer 1, mean 0.20", "layer 1, mean 0.55", "layer 1, mean +0.35",
    ]  # fmt: skip
    difference = maps[4].images[0]
    assert difference.get_array()[0, 1] == pytest.approx(0.35)
    assert difference.get_clim() == (pytest.approx(-0.4), pytest.approx(0.4))
    assert beside_maps(two_layers("one", 0.2), two_layers("two", 0.5, heads=3), "cka") == []


@pytest.mark.parametrize(
    ("apart", "title", "cell"),
    [(0.35, "+0.35", ".35"), (0.03, "+0.030", ".030"), (0.002, "+0.0020", ".0020")],
)
def test_small_differences_have_digits(apart, title, cell):
    (plot,) = beside_maps(two_layers("one", 0.2), two_layers("two", 0.2 + apart), "cka")
    last = [axis for axis in plot.figure.axes if "layer 1" in axis.get_title()][-1]
    assert last.get_title().strip() == f"layer 1, mean {title}"
    assert {text.get_text() for text in last.texts} == {cell, "difference"}


def test_maps_name_measure_model_and_heads():
    figure = heat_maps(two_layers("one", 0.2), "cka").figure
    labels = [axis.get_ylabel() for axis in figure.axes] + [a.get_xlabel() for a in figure.axes]
    assert "encoder self-attention\nhead" in labels and "head" in labels
    assert "CKA of outputs, linear kernel" in labels


def test_long_names_of_two_models_stand_free():
    """Nothing is cut off at the edge, and no name stands in another or in a title."""
    names = ("$multi30k.de-en.baseline.seed1", "multi30k.de-en.em_routing_1_2.seed1.7ecf4466")
    (plot,) = beside_maps(*(two_layers(name, 0.2) for name in names), "cka")
    figure = plot.figure
    drawn(plot, ["png"])
    figure.set_dpi(DPI)
    figure.canvas.draw()
    page = figure.bbox
    texts = [text for axis in figure.axes for text in axis.texts if len(text.get_text()) > 4]
    assert [text.get_text() for text in texts] == [*names, "difference"]
    extents = [text.get_window_extent() for text in texts]
    for box in extents:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and box.y1 <= page.y1
    rows = [axis for axis in figure.axes if axis.images and axis.get_title()][::2]
    for axis, box, above in zip(rows, extents, [None, *rows], strict=False):
        title = axis.title.get_window_extent()
        assert box.y0 > (title.y0 + title.y1) / 2, "over the title's second line"
        if above is not None:
            assert box.y1 < above.get_tightbbox().y0


def test_every_layer_has_a_panel_and_a_band_of_its_own():
    layer = {"svcca": {"coefficients": {"1-2": [0.9, 0.1], "1-3": [0.5, 0.3], "2-3": [0.7, 0.2]}}}
    layers = {str(n): layer for n in range(1, 8)}
    found = {"name": "m", "components": {"decoder": {"layers": layers}}}
    figure = curves_of_layers(found).figure
    drawn = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title() for axis in drawn] == [f"layer {n}" for n in range(1, 8)]
    assert all(len(axis.collections) == 1 for axis in drawn)


def test_a_pair_with_few_coefficients_does_not_cut_the_others():
    pairs = {"1-2": [0.9, 0.5, 0.3], "1-3": [0.5], "2-3": []}
    layer = {"svcca": {"coefficients": pairs}}
    found = {"name": "m", "components": {"encoder": {"depth": 1, "layers": {"1": layer}}}}
    for plot in (curves_of_layers(found), curves_of_models([found, found | {"name": "n"}])):
        line = next(axis for axis in plot.figure.axes if axis.get_title()).lines[-1]
        assert line.get_ydata() == pytest.approx([0.7, 0.5, 0.3])


def test_the_legend_has_every_model_and_no_two_look_alike():
    layers = {"1": {"svcca": {"coefficients": {"1-2": [0.9, 0.5]}}}}
    entry = {"depth": 1, "layers": layers}
    models = [
        {"name": f"m{n}", "components": {"decoder" if n else "encoder": entry}} for n in range(12)
    ]
    plot = curves_of_models(models)
    assert "at the last layer of each" in plot.caption
    entry["depth"] = 2
    assert "at the last chosen layer of each" in curves_of_models(models).caption
    (legend,) = plot.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"m{n}" for n in range(12)]
    looks = {(line.get_color(), line.get_linestyle()) for line in legend.get_lines()}
    assert len(looks) == 12
    assert len({tuple(tsne._look(n).values()) for n in range(12)}) == 12


def test_heads_are_mapped_only_if_there_are_enough_of_one_width():
    four, wide = torch.randn(4, 6), torch.randn(4, 8)
    assert head_map([("a", {"encoder": four})]) is None
    assert head_map([("a", {"encoder": four}), ("b", {"encoder": wide})]) is None
    assert head_map([("a", {"encoder": torch.randn(9, 1)})]) is None, "no plane in one dimension"
    figure = head_map([("a", {"encoder": four}), ("b", {"encoder": four + 1})]).figure
    assert [len(points.get_offsets()) for points in figure.axes[0].collections] == [4, 4]


def test_no_figure_overwrites_another():
    plots = [
        heat_maps(result(2, [[1, 0.5], [0.5, 1]], "cka", name), "cka") for name in ("a/b", "a-b")
    ]
    assert [plot.name for _, plot in _with_own_names([("", plot) for plot in plots])] == [
        "cka-a-b",
        "cka-a-b-2",
    ]


@pytest.mark.parametrize(
    ("value", "limits", "said"),
    [(0.03, (0, 0.03), "the scale ends at 0.03, not at 1"), (0.5, (0, 1), ""),
     (0.93, (0.93, 1), "the scale begins at 0.93, not at 0"), (0.0, (0, 1), "")],
)  # fmt: skip
def test_values_near_one_end_have_a_scale_of_their_own_and_the_caption_says_so(value, limits, said):
    pairs = [[1, value], [value, 1]]
    plot = heat_maps(result(2, pairs, "cka"), "cka")
    assert plot.figure.axes[0].images[0].get_clim() == pytest.approx(limits)
    assert said in plot.caption and ("the scale" in plot.caption) == bool(said)
    (plot,) = beside_maps(two_layers("one", value), two_layers("two", value), "cka")
    assert plot.figure.axes[0].images[0].get_clim() == pytest.approx(limits)
    assert said in plot.caption
