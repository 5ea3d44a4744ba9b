"""Recipes: finding, composing, overrides, folders, and files of a user's own."""

import pytest
import yaml

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS
from diverse_mha.recipes.recipe import (
    compose,
    find,
    lookup,
    parse_overrides,
    read_recipe,
    spell,
)

RECIPES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def test_a_recipe_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find("demo") == CONFIGS / "demo.yaml"
    (tmp_path / "demo").touch()
    assert find("demo") == CONFIGS / "demo.yaml"
    (tmp_path / "demo.yaml").write_text("common: {}\n")
    assert str(find("demo.yaml")) == "demo.yaml"
    with pytest.raises(UserError, match="^demoo: no such recipe; configs/ has demo"):
        read_recipe("demoo")


def test_a_group_overrides_the_recipe_and_an_override_overrides_both(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("defaults: [{size: base}, {method: null}]\nmodel: {dropout: 0.1}\n")
    words = ["method=drophead", "+size=big", "++model.dropout=0.3"]
    choices, settings = parse_overrides(words, {"method", "size"})
    assert (choices, settings) == ({"method": "drophead", "size": "big"}, {"model.dropout": 0.3})
    found = compose(mine, choices, settings)
    names = ("model.drophead", "model.dropout", "model.encoder_embed_dim", "defaults")
    assert [lookup(found, name) for name in names] == [0.1, 0.3, 1024, None]
    (tmp_path / "method").mkdir()
    (tmp_path / "method/drophead.yaml").write_text("model: {drophead: 0.9}\n")
    found = compose(mine, choices, {})
    assert lookup(found, "model.drophead") == 0.9, "a file beside the recipe takes precedence"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("0.1", 0.1), ("1e-7", 1e-7), ("[0.1,2]", [0.1, 2]), ("null", None), ("true", True)),
        *(("(0.9, 0.98)", "(0.9, 0.98)"), ("1,2", "1,2"), ("", None), ("a: b", "a: b")),
        *((path, path) for path in ("runs/é", "runs/日本", "x=y", "x#y", "a~", "it's", "x(1)")),
        *(("x[1]", "x[1]"), ("'1'", "1"), ("[a", "[a"), ("a+b@c", "a+b@c")),
    ],
)
def test_a_value_is_yaml_and_anything_else_is_text(text, value):
    assert parse_overrides([f"a.b={text}"])[1] == {"a.b": value}


@pytest.mark.parametrize(
    "value",
    [0.1, 1e-7, 5, None, True, "text", "1", "1e-7", "no", "a b", "it's", "null", [1, "2"]]
    + [["a,b", "c"], [[1, 2], 3]],
)
def test_a_spelt_value_is_read_as_it_was(value):
    assert parse_overrides([f"a.b={spell(value)}"])[1] == {"a.b": value}


@pytest.mark.parametrize("word", ["optimization.lr", "--lr", "~model.dropout", "a b=1", "=1"])
def test_words_that_set_nothing_are_refused(word):
    with pytest.raises(UserError, match="key"):
        parse_overrides([word])


def test_a_part_of_fairseq_is_chosen_by_its_name():
    assert read_recipe("demo", ["optimizer=fused_adam"]).get("optimizer._name") == "fused_adam"


@pytest.mark.parametrize("name", RECIPES)
def test_the_default_method_is_the_baseline(name):
    recipe = read_recipe(name)
    assert recipe.choices["method"] == "baseline"
    assert recipe.get("checkpoint.save_dir") == f"runs/{name}/baseline"
    assert recipe.settings["model"] == read_recipe(name, ["method=baseline"]).settings["model"]


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["method=hsic"], "hsic"),
        (["method=coda+hsic", "size=big"], "coda+hsic-big"),
        (["size=base"], "baseline"),
        (["common.seed=1"], "baseline"),
        (["method=coda", "common.seed=2"], "coda-seed2"),
        (["training=zheng2021_wmt"], "baseline-zheng2021_wmt"),
    ],
)
def test_a_runs_folder_tells_method_size_and_seed(words, folder):
    assert read_recipe("wmt14_en_de", words).get("checkpoint.save_dir") == (
        f"runs/wmt14_en_de/{folder}"
    )
    given = read_recipe("wmt14_en_de", [*words, "checkpoint.save_dir=x"])
    assert given.get("checkpoint.save_dir") == "x"


def test_methods_are_combined_unless_they_contradict_each_other():
    both = read_recipe("demo", ["method=coda+hsic"])
    assert (both.get("model.logits"), both.get("criterion.hsic_weight")) == ("mlp", 1e-7)
    with pytest.raises(UserError, match=r"two of its methods set model\.logits"):
        read_recipe("demo", ["method=coda+realformer"])


def test_a_method_replaces_the_method_that_a_file_sets(tmp_path):
    """A file may train CODA; method=hsic trains HSIC alone, all the same."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "model: {_name: transformer_disagree, logits: mlp, attention_noise: 1.0, dropout: 0.2}\n"
        "criterion: {_name: x, disagreement: output, disagreement_weight: 0.1}\n"
    )
    assert read_recipe(mine).get("model.logits") == "mlp", "as it is, without a method"
    assert read_recipe(mine).get("checkpoint.save_dir") == "runs/mine/default"
    hsic = read_recipe(mine, ["method=hsic"])
    assert hsic.settings["model"] == {
        "_name": "transformer_disagree", "logits": "none", "attention_noise": 0.0, "dropout": 0.2,
    }  # fmt: skip
    assert hsic.get("criterion.disagreement") is None
    assert hsic.get("criterion.hsic_weight") == 1e-7
    assert hsic.get("criterion.disagreement_weight") == 0.1, "a weight alone is no method"
    assert read_recipe(mine, ["method=coda+hsic"]).get("model.logits") == "mlp"


@pytest.mark.parametrize("name", RECIPES)
def test_no_recipe_sets_a_method_itself(name):
    """Otherwise a method's row would not be that method."""
    plain = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    off = yaml.safe_load((CONFIGS / "method" / "baseline.yaml").read_text())
    for path in (CONFIGS / "method").glob("*.yaml"):
        for group, values in yaml.safe_load(path.read_text()).items():
            for key in values:
                set_to = (plain.get(group) or {}).get(key)
                assert set_to in (None, off.get(group, {}).get(key)), (path.stem, group, key)


def test_a_group_that_the_recipe_lacks_is_refused_with_the_recipes_that_have_it():
    with pytest.raises(UserError, match="^size=big: the recipe demo has no group size; .*iwslt17"):
        read_recipe("demo", ["size=big"])
    methods = ", ".join(sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml")))
    with pytest.raises(UserError, match=f"^method=xyz: no such file; choose from {methods}$"):
        read_recipe("demo", ["method=xyz"])
    with pytest.raises(UserError, match="^method=hsci: no such file; choose from hsic$"):
        read_recipe("demo", ["method=hsci"])


def test_an_interpolation_that_leads_nowhere_is_reported_in_one_line():
    recipe = read_recipe("demo", ["model.dropout=${nowhere}"])
    with pytest.raises(UserError, match="demo.yaml: .*nowhere") as caught:
        recipe.get("model.dropout")
    assert "\n" not in str(caught.value)


def test_the_composed_recipe_is_a_file_of_its_own(tmp_path, capsys):
    words = ["multi30k_small", "method=coda+hsic", "model.dropout=0.2"]
    assert cli.run(["recipe", *words]) == 0
    mine = tmp_path / "mine.yaml"
    mine.write_text(capsys.readouterr().out)
    text = mine.read_text()
    assert text.startswith("# multi30k_small method=coda+hsic, composed") and "${" not in text
    read, meant = read_recipe(mine), read_recipe(words[0], words[1:])
    differences = meant.differences(read)
    assert differences == {
        "checkpoint.save_dir": ("runs/multi30k_small/coda+hsic", "runs/mine/default")
    }


def test_the_composed_recipe_keeps_the_folder_that_its_file_names(tmp_path, capsys):
    mine = tmp_path / "mine.yaml"
    mine.write_text("checkpoint: {save_dir: runs/here}\ntask: {data: x}\n")
    assert cli.run(["recipe", str(mine)]) == 0
    assert "save_dir: runs/here" in capsys.readouterr().out


def test_the_composed_recipe_of_a_users_corpus_prepares_no_other(tmp_path):
    """A run of the file would otherwise prepare the recipe's corpus into the user's folder."""
    own, plain = tmp_path / "own.yaml", tmp_path / "plain.yaml"
    own.write_text(read_recipe("demo", ["task.data=mine/bin"]).to_yaml())
    again = read_recipe(own)
    assert again.get("task.data") == "mine/bin" and again.get("scoring.prepare") is None
    plain.write_text(read_recipe("demo").to_yaml())
    assert read_recipe(plain).get("scoring.prepare")
