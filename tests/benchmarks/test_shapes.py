"""The shapes that are measured are those of the recipes they are named after."""

import pytest

from benchmarks.shapes import SHAPES
from diverse_mha.training.compose import compose

RECIPES = {
    "multi30k-small": ("multi30k_small", {}),
    "base": ("wmt14_en_de", {"size": "base"}),
    "ptb": ("ptb", {}),
    "wiki103-small": ("wiki103_small", {}),
}
SIZES = ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")


@pytest.mark.parametrize("name", RECIPES)
def test_a_shape_is_that_of_its_recipe(name):
    recipe, choices = RECIPES[name]
    model = compose(recipe, choices, {})["model"]
    options = SHAPES[name].options()
    sides = [side for side in ("encoder", "decoder") if f"{side}_layers" in model]
    for key in (f"{side}_{size}" for side in sides for size in SIZES):
        assert options[key] == model[key], key
    assert options.get("adaptive_softmax_cutoff") == model.get("adaptive_softmax_cutoff")
