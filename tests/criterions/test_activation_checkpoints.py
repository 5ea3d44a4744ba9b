"""Activation checkpointing changes no gradient: the recomputation drops the same heads."""

import pytest
import torch

from tests.criterions.test_terms import build_lm, criterion, lm_batch
from tests.toy import build_ours, toy_batch

TERMS = {"hsic_weight": 1e-3, "hsic_samples": 6, "orthogonality_weight": 0.1}
TERMS |= {"disagreement": "position"}
CASES = {
    "translation": ("label_smoothed_cross_entropy", build_ours, toy_batch),
    "translation-routing-cascade": (
        "label_smoothed_cross_entropy",
        lambda **options: build_ours("transformer_routing", logits="mlp", **options),
        toy_batch,
    ),
    "lm": ("cross_entropy", build_lm, lm_batch),
}


@pytest.mark.parametrize("offload", [False, True], ids=["kept", "offloaded"])
@pytest.mark.parametrize("case", CASES)
def test_activation_checkpoints_change_no_gradient(case, offload):
    name, build, make_batch = CASES[case]
    gradients = []
    for options in ({}, {"checkpoint_activations": True, "offload_activations": offload}):
        model = build(**{"drophead": 0.3, "dropout": 0.1, **options}).train()
        torch.manual_seed(7)
        criterion(name, **TERMS)(model, make_batch())[0].backward()
        gradients.append([p.grad for p in model.parameters()])
    torch.testing.assert_close(*gradients)
