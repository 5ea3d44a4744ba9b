"""Resuming with options of another run is refused; other changes are logged."""

from argparse import Namespace

import pytest

from diverse_mha import models  # noqa: F401  registers
from diverse_mha.common.errors import UserError
from diverse_mha.fairseq_fixes.checkpoint_options import check_options
from diverse_mha.fairseq_fixes.same_run import LAST, changes, check_same_run, say_changes

TERMS_SAVED = {"hsic_weight": 0.0, "disagreement_weight": "1", "disagreement_on": "encoder,cross"}
SAVED = {"common": {"seed": 1}, "criterion": TERMS_SAVED, "model": {"drophead": 0.1}}
OWN = {
    "criterion": ("hsic_weight", "disagreement_weight", "disagreement_on", "newer"),
    "model": ("drophead",),
}
LIKE = {
    "hsic_weight": "0",
    "disagreement_weight": 1.0,
    "disagreement_on": "encoder, cross",
    "newer": 5,
}
UNLIKE = {**LIKE, "disagreement_on": "encoder,decoder"}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, None),
        ({"criterion": LIKE}, None),
        (
            {"criterion": UNLIKE},
            "--disagreement-on encoder,cross, .* now encoder,decoder",
        ),
        ({"common": {"seed": 2}}, "last-b.pt: trained with --seed 1, which is now 2; give another"),
        (
            {"criterion": {**LIKE, "hsic_weight": 1e-7, "newer": 1}},
            "--hsic-weight 0.0, .* now 1e-07",
        ),
        # fairseq adds the checkpoint suffix to the path.
        (
            {"model": {"drophead": 0.0}},
            f"--drophead 0.1, .* or, to continue .* --restore-file run/{LAST}$",
        ),
    ],
)
def test_resume_with_changed_options_is_refused(changed, named):
    path = "run/checkpoint_last-b.pt"
    now = {**SAVED, "criterion": {**TERMS_SAVED, "hsic_weight": 0, "newer": 5}, **changed}
    check_same_run(path, SAVED, now, {"criterion": (), "model": ()})  # stock fairseq
    check_same_run(path, None, now, OWN)  # a checkpoint of an old fairseq has no cfg
    if named is None:
        check_same_run(path, SAVED, now, OWN)
        return
    with pytest.raises(UserError, match=named):
        check_same_run(path, SAVED, now, OWN)


@pytest.mark.parametrize("off", ["0.0", 0.0, None, False, ""])
def test_resume_without_the_terms_plugin_is_refused(off):
    begun = {"common": {"seed": 1}, "criterion": {**TERMS_SAVED, "balance_weight": off}}
    now = {**SAVED, "criterion": {**TERMS_SAVED}}
    check_same_run("run/checkpoint_last.pt", begun, now, OWN)  # a term with weight 0
    begun["criterion"]["balance_weight"] = "0.5"
    with pytest.raises(UserError, match="--balance-weight 0.5, which is no longer registered"):
        check_same_run("run/checkpoint_last.pt", begun, now, OWN)
    check_same_run("run/checkpoint_last.pt", begun, now, {"criterion": ()})  # stock fairseq
    now["criterion"]["_name"] = "another"  # another criterion has other options
    check_same_run("run/checkpoint_last.pt", begun, now, OWN)


RUN = {
    "common": {"seed": 1, "bf16": True, "log_interval": 50, "user_dir": "a"},
    "model": {"_name": "transformer_disagree", "dropout": 0.1, "attention_heads": 4},
    "task": {
        "_name": "exact_translation",
        "data": "DATA",
        "source_lang": None,
        "target_lang": "en",
    },
    "criterion": {"_name": "with_diversity", "label_smoothing": 0.1, "hsic_weight": "0.0"},
    "optimization": {"lr": [0.004], "max_update": 100, "update_freq": [1]},
    "optimizer": {"_name": "adam", "adam_betas": "(0.9, 0.98)"},
    "lr_scheduler": {"_name": "tri_stage", "lr": [0.004], "warmup_updates": 500, "max_update": 100},
    "dataset": {"max_tokens": 2000, "num_workers": 0},
    "checkpoint": {"save_dir": "run", "reset_optimizer": False},
}
OTHERS = [
    ("model", {"attention_heads": 8}, "--attention-heads 4, which is now 8; .*--restore-file run/"),
    ("task", {"data": "OTHER"}, "--data .*/data, which is now .*/other; "),
    ("task", {"target_lang": "fr"}, "--target-lang en, which is now fr; "),
    ("criterion", {"_name": "adaptive_loss"}, "--criterion with_diversity, .* now adaptive_loss"),
    ("optimization", {"lr": [0.001]}, "--lr 0.004, which is now 0.001"),
    (
        "optimizer",
        {"_name": "nag"},
        "--optimizer adam, which is now nag; .* new value, add --reset-optimizer$",
    ),
]
WARNED = [
    ("model", {"dropout": 0.3}, "dropout 0.1, now 0.3"),
    ("criterion", {"label_smoothing": 0.0}, "label_smoothing 0.1, now 0.0"),
    ("optimizer", {"adam_betas": [0.9, 0.999]}, "adam_betas 0.9, 0.98, now 0.9, 0.999"),
    ("lr_scheduler", {"warmup_updates": 10, "lr": 1}, "warmup_updates 500, now 10"),
    ("optimization", {"max_update": 200}, "max_update 100, now 200"),
    ("common", {"bf16": False}, "bf16 True, now False"),
]
#: Group -> option that confirms a change in the group.
CONFIRMS = {
    "criterion": "reset_optimizer",
    "optimizer": "reset_optimizer",
    "optimization": "reset_lr_scheduler",
    "task": "reset_dataloader",
}
HARMLESS = {
    "common": {"log_interval": 10, "user_dir": "b"},
    "model": {"_name": "transformer_disagree_small"},
    "task": {"source_lang": "de"},
    "optimizer": {"adam_betas": [0.9, 0.98]},
    "dataset": {"num_workers": 2},
}


def changed(tmp_path, group, options, checkpoint=()):
    """Return the saved options of a run, and changed options with which it is resumed."""
    now = RUN | {group: RUN[group] | dict(options)}
    now["checkpoint"] = now["checkpoint"] | dict(checkpoint)
    both = []
    for run in (RUN, now):
        data = {"DATA": tmp_path / "data", "OTHER": tmp_path / "other"}[run["task"]["data"]]
        both.append(run | {"task": run["task"] | {"data": str(data)}})
    return both


@pytest.mark.parametrize(("group", "options", "named"), OTHERS)
def test_changed_run_needs_confirmation(group, options, named, tmp_path):
    (tmp_path / "data").mkdir()
    path = "run/checkpoint_last.pt"
    with pytest.raises(UserError, match=named):
        check_same_run(path, *changed(tmp_path, group, options), OWN)
    with pytest.raises(
        UserError, match="another --save-dir, or, to start there from these weights, --fi"
    ):
        check_same_run(path, *changed(tmp_path, group, options), OWN, fits=False)
    if group in CONFIRMS:
        confirmed = changed(tmp_path, group, options, {CONFIRMS[group]: True})
        (change,) = check_same_run(path, *confirmed, OWN)
        assert change[:2] == (group, next(iter(options)))


@pytest.mark.parametrize(("group", "options", "text"), WARNED)
def test_other_changes_are_permitted(group, options, text, tmp_path):
    (tmp_path / "data").mkdir()
    (change,) = check_same_run("run/a.pt", *changed(tmp_path, group, options), OWN)
    assert str(change) == text


def test_moved_data_is_accepted(tmp_path):
    saved, now = changed(tmp_path, "task", {"data": "OTHER"})
    assert [change.name for change in check_same_run("run/a.pt", saved, now, OWN)] == ["data"]


@pytest.mark.parametrize("model", [dict, Namespace])
def test_a_run_with_pretrained_embeddings_resumes(model, tmp_path):
    """Loading a checkpoint removes the options that name files."""
    files = {"encoder_embed_path": "data/emb.vec", "decoder_embed_path": "data/emb.vec"}
    saved, now = changed(tmp_path, "model", {})
    saved["model"], now["model"] = model(**RUN["model"], **files), model(**RUN["model"], **files)
    check_options("run/a.pt", {"model": saved["model"]})
    before = vars(saved["model"]) if model is Namespace else saved["model"]
    assert [before[name] for name in files] == [None, None]
    assert check_same_run("run/a.pt", saved, now, OWN) == []


@pytest.mark.parametrize("group", HARMLESS)
def test_harmless_changes_are_not_logged(group, tmp_path):
    assert not list(changes(*changed(tmp_path, group, HARMLESS[group])))


def test_permitted_changes_are_logged_in_one_line(tmp_path, caplog):
    saved, now = changed(tmp_path, "optimization", {"max_update": 200, "update_freq": [2]})
    now["dataset"] = {"max_tokens": 4000, "num_workers": 1}
    say_changes("run/a.pt", check_same_run("run/a.pt", saved, now, OWN))
    assert caplog.messages == [
        "run/a.pt: resumed with changed options: max_update 100, now 200; "
        "update_freq 1, now 2; max_tokens 2000, now 4000"
    ]
