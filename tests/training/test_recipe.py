"""What recipes say of a name that is none, and of an error in one of several processes."""

import sys
import traceback

import pytest
from fairseq_cli import hydra_train
from torch.multiprocessing import ProcessRaisedException

from diverse_mha.common.errors import OptionError, UserError
from diverse_mha.common.options import as_keys
from diverse_mha.common.places import CONFIGS
from diverse_mha.training import launch, recipe


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (OptionError("--hsic-samples -1: must be 0"), UserError, "criterion.hsic_samples -1: must"),
        (ValueError("--hsic-samples -1: of torch"), ProcessRaisedException, "--hsic-samples"),
    ],
)
def test_a_refusal_in_a_process_of_its_own_is_one_line(monkeypatch, raised, expected, message):
    def spawn():  # as torch.multiprocessing.spawn ends
        told = "".join(traceback.format_exception(raised))
        raise ProcessRaisedException(f"\n\n-- Process 1 terminated with:\n{told}", 1, 4711)

    monkeypatch.setattr(hydra_train, "cli_main", spawn)
    words = ["--config-dir", str(CONFIGS), "--config-name", "demo"]
    monkeypatch.setattr(sys, "argv", ["recipe", *words])
    with pytest.raises(expected) as caught:
        recipe.main()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("give another --save-dir, or", "give another checkpoint.save_dir, or"),
        ("--lr 0.1, --dropout 0.3", "optimization.lr 0.1, model.dropout 0.3"),
        ("--source-lang and --seed", "task.source_lang and common.seed"),
        ("--arch a; --criterion b", "model._name a; criterion._name b"),
        ("--config x.yaml: --processes 3", "--config x.yaml: --processes 3"),  # of train.sh
    ],
)
def test_errors_of_a_recipe_name_its_keys(option, key):
    words = ["--config-dir", str(CONFIGS), "--config-name", "demo"]
    assert as_keys(option, recipe.keys_of_options(recipe.job_of(words))) == key


def test_a_group_that_is_a_name_by_itself_is_looked_up():
    job = launch.Request([], config=CONFIGS / "x.yaml", recipe={"criterion": "cross_entropyy"})
    (said,) = recipe.unknown_names(job)
    assert said.startswith("criterion._name: there is no 'cross_entropyy'; the nearest are cross_e")


def test_a_method_that_does_not_exist_is_answered_with_all_that_do(monkeypatch):
    words = ["--config-dir", str(CONFIGS), "--config-name", "demo", "method=hsci"]
    monkeypatch.setattr(sys, "argv", ["recipe", *words])
    with pytest.raises(UserError, match="Could not find 'method/hsci'") as caught:
        recipe.main()
    methods = ", ".join(sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml")))
    assert f"Available options in 'method', {methods}; correct it" in str(caught.value)


@pytest.mark.parametrize("word", ["++model.logits=residual", "method=coda"])
def test_a_model_of_fairseqs_does_not_take_our_options_in_silence(word):
    job = launch.parse(["--config", "multi30k_small", "model._name=transformer", word])
    message = r"model\.logits=\w+: transformer has no such option; give model\._name=transformer_"
    with pytest.raises(UserError, match=message):
        recipe.check_model(job)
    recipe.check_model(launch.parse(["--config", "multi30k_small", word]))
    recipe.check_model(launch.parse(["--config", "multi30k_small", "model._name=transformer"]))
