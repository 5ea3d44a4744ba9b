"""What is in the figures: sizes, scales, and names of files."""

import math

import pytest
import torch

from diverse_mha.analysis.figures.attention import attention_maps
from diverse_mha.analysis.figures.heat_maps import heat_maps
from diverse_mha.analysis.figures.tsne import head_map
from diverse_mha.analysis.output import _with_own_names
from diverse_mha.analysis.sentence import Attention, SentenceAttention


def result(heads, pairs, measure, name="model"):
    layers = {"1": {measure: {"mean": 0.5, "pairs": pairs}}}
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
    assert heat_maps(result(1, [[1.0]], "cka"), "cka") is None


def test_many_attention_maps_are_spread_over_figures():
    tokens = ["$x$", "<b>", "a"]
    layers = {number: torch.full((16, 3, 3), 1 / 3) for number in range(1, 6)}
    attention = SentenceAttention(0, {"cross": Attention(tokens, tokens, layers)})
    plots = attention_maps("m", attention)
    assert [plot.name for plot in plots] == [f"attention-cross-m-{n}" for n in (1, 3, 5)]
    labels = [text.get_text() for text in plots[0].figure.axes[0].get_yticklabels()]
    assert labels == tokens
    panels = [axis.get_title() for plot in plots for axis in plot.figure.axes if axis.images]
    assert len([title for title in panels if title]) == 5 * 16


def test_heads_are_mapped_only_if_there_are_enough_of_one_width():
    four, wide = torch.randn(4, 6), torch.randn(4, 8)
    assert head_map([("a", {"encoder": four})]) is None
    assert head_map([("a", {"encoder": four}), ("b", {"encoder": wide})]) is None
    figure = head_map([("a", {"encoder": four}), ("b", {"encoder": four + 1})]).figure
    assert [len(points.get_offsets()) for points in figure.axes[0].collections] == [4, 4]


def test_no_figure_overwrites_another():
    plots = [
        heat_maps(result(2, [[1, 0.5], [0.5, 1]], "cka", name), "cka") for name in ("a/b", "a-b")
    ]
    assert [plot.name for plot in _with_own_names(plots)] == ["cka-a-b", "cka-a-b-2"]
