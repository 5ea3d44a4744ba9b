"""Composing recipes, messages about wrong ones, and the choice of float32 or bfloat16."""

import re
import sys
import traceback

import pytest
import torch
from fairseq_cli import hydra_train
from torch.multiprocessing import ProcessRaisedException

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS
from diverse_mha.common.options import as_keys
from diverse_mha.training import checks, precision, recipe, train
from diverse_mha.training.compose import compose, lookup, parse_overrides


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (UserError("--hsic-samples -1: must be 0"), UserError, "criterion.hsic_samples -1: must"),
        (ValueError("--hsic-samples -1: of torch"), ProcessRaisedException, "--hsic-samples"),
    ],
)
def test_only_user_errors_in_a_worker_process_are_reported_in_one_line(
    monkeypatch, raised, expected, message
):
    def spawn():  # fails as torch.multiprocessing.spawn does
        trace = "".join(traceback.format_exception(raised))
        raise ProcessRaisedException(f"\n\n-- Process 1 terminated with:\n{trace}", 1, 4711)

    monkeypatch.setattr(hydra_train, "cli_main", spawn)
    arguments = ["--config-dir", str(CONFIGS), "--config-name", "demo"]
    monkeypatch.setattr(sys, "argv", ["recipe", *arguments])
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
        (
            "a.pt: is another run; give --restore-file runs/a b/checkpoint_last.pt",
            "a.pt: is another run; give ++checkpoint.restore_file=runs/a b/checkpoint_last.pt",
        ),
        (
            "--max-tokens 5: too few; give --max-tokens 20",
            "dataset.max_tokens 5: too few; give ++dataset.max_tokens=20",
        ),
        (
            "--max-tokens 5: not as begun; give --max-tokens 9, or --reset-dataloader",
            "dataset.max_tokens 5: not as begun; give ++dataset.max_tokens=9, or "
            "++checkpoint.reset_dataloader=true",
        ),
        (
            "x; give another --save-dir, or leave --cpu out",
            "x; give another checkpoint.save_dir, or leave common.cpu out",
        ),
        (
            "--config x.yaml: --processes 3",
            "--config x.yaml: --processes 3",
        ),  # train.sh has no keys
    ],
)
def test_errors_in_a_recipe_mention_config_keys_instead_of_options(option, key):
    arguments = ["--config-dir", str(CONFIGS), "--config-name", "demo"]
    assert as_keys(option, checks.keys_of_options(recipe.job_of(arguments))) == key


def test_a_recipe_in_a_folder_with_an_equals_sign_is_read(tmp_path):
    mine = tmp_path / "lr=0.1,it's" / "a=b.yaml"
    mine.parent.mkdir()
    mine.write_text("task: {data: x}\n")
    job = train.parse(["--config", str(mine), "common.seed=2"])
    ((command, _),) = train.commands(job, gpus=0, port=1)
    read = recipe.job_of(command[command.index("--config-dir") :])
    assert read.config == mine and read.recipe["task"] == {"data": "x"}
    assert read.recipe["common"]["seed"] == 2


def test_an_unknown_criterion_given_as_a_string_is_reported():
    job = train.Request([], config=CONFIGS / "x.yaml", recipe={"criterion": "cross_entropyy"})
    note = checks.unknown_name(job)
    assert note.startswith("criterion._name: there is no 'cross_entropyy'; the nearest are cross_e")


def test_an_unknown_method_is_reported_with_the_nearest_or_all(monkeypatch):
    arguments = ["--config-dir", str(CONFIGS), "--config-name", "demo", "method=hsci"]
    monkeypatch.setattr(sys, "argv", ["recipe", *arguments])
    with pytest.raises(UserError, match="^method=hsci: no such file; choose from hsic$"):
        recipe.main()
    monkeypatch.setattr(sys, "argv", ["recipe", *arguments[:-1], "method=xyz"])
    methods = ", ".join(sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml")))
    with pytest.raises(UserError, match=f"^method=xyz: no such file; choose from {methods}$"):
        recipe.main()
    # A search path of the user's own may have other files; Hydra then finds them or refuses.
    monkeypatch.setattr(sys, "argv", ["recipe", *arguments, "hydra.searchpath=[file:///tmp]"])
    with pytest.raises(UserError, match="Could not find 'method/hsci'"):
        recipe.main()


@pytest.mark.parametrize("word", ["++model.logits=residual", "method=coda"])
def test_our_options_are_refused_for_a_model_of_fairseq(word):
    job = train.parse(["--config", "multi30k_small", "model._name=transformer", word])
    message = r"model\.logits=\w+: transformer has no such option; give model\._name=transformer_"
    with pytest.raises(UserError, match=message):
        checks.check_model(job)
    checks.check_model(train.parse(["--config", "multi30k_small", word]))
    checks.check_model(train.parse(["--config", "multi30k_small", "model._name=transformer"]))


@pytest.mark.parametrize(
    ("word", "cure"),
    [
        ("optimization.update_freq=4", "must be a list; give [4]"),
        ("optimization.update_freq=4,2", "must be a list; give [4,2]"),
        ("optimization.update_freq=x", "must be a list; give [4]"),
        ("optimization.lr=0.001", "must be a list; give [0.001]"),
        ("model.dropout=0,3", "give 0.3"),
        ("model.dropout=low", "must be a number, such as 0.1"),
        ("dataset.max_tokens=4k", "must be a whole number, such as 4"),
        ("++generation.lenpen=0,6", "give 0.6"),
        ("common.cpu=maybe", "must be true or false, such as true"),
    ],
)
def test_a_value_that_a_training_would_not_read_is_refused_first(tmp_path, word, cure):
    """It is so on the command line and in the file, and the cure works."""
    given = ["--config", "multi30k_small", word]
    with pytest.raises(UserError, match=f"^{re.escape(f'{word}: {cure}')}$"):
        train.main([*given, "--dry-run"])
    key, value = word.lstrip("+").split("=")
    group, name = key.split(".")
    mine = tmp_path / "mine.yaml"
    named = "_name: transformer_disagree, " if group == "model" else ""
    mine.write_text(f"{group}: {{{named}{name}: '{value}'}}\n")
    with pytest.raises(UserError, match=f"mine.yaml: {re.escape(f'{key}={value}: {cure}')}$"):
        checks.check_values(train.parse(["--config", str(mine)]))
    if written := re.fullmatch(r".*give (\S+)", cure):
        checks.check_values(train.parse([*given[:2], f"{word.partition('=')[0]}={written[1]}"]))


@pytest.mark.parametrize(
    "word",
    ["dataset.max_tokens=${x}", "optimization.clip_norm=1e-3", "model.dropout=0", "common.cpu=yes"]
    + ["optimization.lr=[0.1,1]", "optimizer.adam_betas='(0.9,0.98)'", "dataset.batch_size=null"],
)
def test_values_that_a_training_reads_are_not_refused(word, capsys):
    assert train.main(["--config", "multi30k_small", "--dry-run", word]) == 0
    assert "${x}" not in word or "up to 1 times ${x} tokens" in capsys.readouterr().out


def test_a_group_overrides_the_recipe_and_an_override_overrides_both(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("defaults: [_self_, {method: null}]\nmodel: {drophead: 0.5, dropout: 0.1}\n")
    words = ["method=drophead", "+size=big", "++model.dropout=0.3", "hydra.job.chdir=false"]
    choices, settings = parse_overrides(words)
    assert (choices, settings) == ({"method": "drophead", "size": "big"}, {"model.dropout": 0.3})
    found = compose(mine, choices, settings)
    names = ("model.drophead", "model.dropout", "model.encoder_embed_dim", "hydra")
    assert [lookup(found, name) for name in names] == [0.1, 0.3, 1024, None]
    (tmp_path / "method").mkdir()
    (tmp_path / "method/drophead.yaml").write_text("model: {drophead: 0.9}\n")
    assert lookup(compose(mine, choices, {}), "model.drophead") == 0.9, (
        "a group file beside the recipe takes precedence"
    )


def test_lenient_compose_ignores_a_choice_without_a_file():
    with pytest.raises(UserError, match="hsci.yaml: no such file; method/ has hsic$"):
        compose("demo", {"method": "hsci"}, {})
    assert compose("demo", {"method": "hsci"}, {}, lenient=True) == compose("demo", {}, {})


def test_errors_of_omegaconf_are_reported_in_one_line():
    with pytest.raises(UserError, match="demo.yaml: .*; correct it in the recipe") as caught:
        compose("demo", {}, {"model.dropout": "${"})
    assert "\n" not in str(caught.value)


def _chosen(monkeypatch, folder, *words, bfloat16="0"):
    monkeypatch.setenv("DIVERSE_MHA_BFLOAT16", bfloat16)
    recipe_words = [
        "--config",
        "multi30k_small",
        f"checkpoint.save_dir={folder}",
        "common.cpu=true",
    ]
    return precision.choose(train.parse([*recipe_words, *words]))


def test_a_recipe_trains_in_float32_where_bfloat16_is_emulated(monkeypatch, tmp_path):
    words, note = _chosen(monkeypatch, tmp_path)
    assert words == ["++common.bf16=false"] and note.startswith("precision: float32, as this proc")
    assert _chosen(monkeypatch, tmp_path, bfloat16="1") == ([], "precision: bfloat16")
    assert _chosen(monkeypatch, tmp_path, "common.bf16=true") == ([], "")


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("processor", ["0", "1"])
def test_a_resumed_run_keeps_its_precision(monkeypatch, tmp_path, before, processor):
    state = {"model": {"w": torch.zeros(1)}, "cfg": {"common": {"bf16": before}}}
    torch.save(state, tmp_path / "checkpoint_last.pt")
    words, note = _chosen(monkeypatch, tmp_path, bfloat16=processor)
    assert words == [f"++common.bf16={str(before).lower()}"]
    assert note.startswith(
        f"precision: {'bfloat16' if before else 'float32'}, as in the checkpoint"
    )


def test_fp16_without_a_gpu_is_refused_before_training(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="common.fp16=true: needs a GPU"):
        _chosen(monkeypatch, tmp_path, "++common.fp16=true")
