"""The one reader of recipes: groups, words, and what it refuses."""

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.training.compose import compose, lookup, read_words


def test_a_group_wins_over_the_recipe_and_a_word_over_all(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("defaults: [_self_, {method: null}]\nmodel: {drophead: 0.5, dropout: 0.1}\n")
    words = ["method=drophead", "+size=big", "++model.dropout=0.3", "hydra.job.chdir=false"]
    choices, settings = read_words(words)
    assert (choices, settings) == ({"method": "drophead", "size": "big"}, {"model.dropout": 0.3})
    found = compose(recipe, choices, settings)
    names = ("model.drophead", "model.dropout", "model.encoder_embed_dim", "hydra")
    assert [lookup(found, name) for name in names] == [0.1, 0.3, 1024, None]
    (tmp_path / "method").mkdir()
    (tmp_path / "method/drophead.yaml").write_text("model: {drophead: 0.9}\n")
    assert lookup(compose(recipe, choices, {}), "model.drophead") == 0.9, "beside the recipe"


def test_a_choice_of_no_file_is_left_to_hydra_by_a_lenient_reader():
    with pytest.raises(UserError, match="hsci.yaml: no such file; method/ has hsic$"):
        compose("demo", {"method": "hsci"}, {})
    assert compose("demo", {"method": "hsci"}, {}, lenient=True) == compose("demo", {}, {})


def test_what_omegaconf_refuses_is_one_line():
    with pytest.raises(UserError, match="demo.yaml: .*; correct it in the recipe") as caught:
        compose("demo", {}, {"model.dropout": "${"})
    assert "\n" not in str(caught.value)
