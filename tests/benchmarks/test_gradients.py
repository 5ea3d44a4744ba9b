"""The table of gradient norms: against gradients taken one by one."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks import gradients
from diverse_mha.common.errors import UserError
from diverse_mha.methods.disagreement import output_disagreement
from tests import toy

PADDING = 1


def norm(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()


def test_norms_are_those_of_separate_backward_passes():
    model, batch = toy.build_ours().eval(), toy.toy_batch()
    norms = gradients.gradient_norms(model, batch, PADDING)
    assert set(norms) == {"token loss", *gradients.TERMS}

    logits = model(**batch["net_input"])[0]
    target = batch["target"]
    real = target != PADDING
    nll = F.cross_entropy(logits[real], target[real])
    assert norms["token loss"] == pytest.approx(float(norm(model, nll)), rel=1e-5)

    states = model(**batch["net_input"], return_head_states=("outputs",))[1]["head_states"]
    value = sum(
        sum(output_disagreement(s.outputs, s.query_padding_mask) for s in layers) / len(layers)
        for layers in states.values()
    )
    assert norms["disagreement output"] == pytest.approx(float(norm(model, -value)), rel=1e-4)


def test_the_two_normalisations_differ_by_the_square_of_the_samples():
    model, batch = toy.build_ours().eval(), toy.toy_batch()
    norms = gradients.gradient_norms(model, batch, PADDING)
    samples = max(
        int((x != PADDING).sum())
        for x in (batch["net_input"]["src_tokens"], batch["net_input"]["prev_output_tokens"])
    )
    assert 1 < norms["hsic, trace"] / norms["hsic, mean"] <= (samples - 1) ** 2 * 1.001


@pytest.mark.parametrize("option", ["--batches", "--max-tokens"])
def test_impossible_numbers_are_named(option):
    with pytest.raises(UserError, match=f"{option}: 0 is not a whole number from 1 up"):
        gradients.main(["checkpoint.pt", "data", option, "0"])
