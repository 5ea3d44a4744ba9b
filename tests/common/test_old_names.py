"""Checkpoints and runs of the study have names of before the first release."""

from argparse import Namespace

import pytest
from omegaconf import OmegaConf

from diverse_mha.common.old_names import as_published, renew

OLD = {
    "task": {"_name": "diverse_translation", "data": "x"},
    "model": {"_name": "transformer_coda", "cascade": "mlp"},
    "criterion": {"disagreement_form": "printed", "hsic_weight": "0"},
}
NEW = {
    "task": {"_name": "exact_translation", "data": "x"},
    "model": {"_name": "transformer_coda", "logits": "mlp"},
    "criterion": {"disagreement_form": "paper", "hsic_weight": "0"},
}


@pytest.mark.parametrize("structured", [False, True])
def test_old_option_names_are_renewed(structured):
    options = OmegaConf.create(OLD)
    OmegaConf.set_struct(options, structured)
    state = {"cfg": options, "extra_state": {"DiverseTranslationTask": {"fp32_params": [1]}}}
    for _ in range(2):
        renew(state)
        assert options == NEW, "once more changes nothing"
    assert state["extra_state"] == {"ExactTranslationTask": {"fp32_params": [1]}}


def test_a_namespace_within_and_missing_groups():
    options = {"model": Namespace(cascade="none"), "task": None}
    renew({"cfg": options})
    assert vars(options["model"]) == {"logits": "none"}
    renew({"args": Namespace(task="translation"), "cfg": None, "extra_state": None})


def test_published_runs_are_identified_by_old_names():
    assert as_published(NEW) == OLD and as_published({"task": {"data": "x"}})["task"] == {
        "data": "x"
    }
