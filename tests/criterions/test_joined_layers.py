"""On a GPU a term is computed for all layers of a component in one call."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from diverse_mha.attention import HeadStates
from diverse_mha.methods import orthogonality
from diverse_mha.methods import term as base
from diverse_mha.methods.disagreement import cosine
from tests.criterions.test_terms import CASES, criterion, run
from tests.toy import build_ours

TERMS = {
    "disagreement": {"disagreement": "subspace,position,output", "disagreement_weight": 0.5},
    "forms": {"disagreement": "output", "disagreement_form": "squared"},
    "centred": {"disagreement": "subspace", "disagreement_form": "centred,off-diagonal"},
    "orthogonality": {"orthogonality_weight": 0.7},
    "mean-loss": {"orthogonality_weight": 0.7, "orthogonality_normalization": "mean-loss"},
    "hsic": {"hsic_weight": 0.3, "hsic_samples": 7},
    "hsic-of-all": {"hsic_weight": 0.3, "hsic_normalization": "mean"},
}


class Started(TorchDispatchMode):
    """Counts all dispatched operations."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def as_on_a_gpu(monkeypatch):
    for module in (base, cosine, orthogonality):
        monkeypatch.setattr(module, "launches_cost", lambda device: True)


@pytest.mark.parametrize("options", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("case", ["label_smoothed_cross_entropy", "cross_entropy"])
def test_losses_and_gradients_equal_those_of_separate_layers(case, options, monkeypatch):
    build, batch = CASES[case]
    model = build().double()

    def outcome():
        torch.manual_seed(5)  # HSIC draws the same sample of positions in both calls
        return run(criterion(case, **options), model, batch())

    expected = outcome()
    as_on_a_gpu(monkeypatch)
    found = outcome()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["disagreement", "orthogonality", "hsic"])
def test_more_layers_start_few_more_operations(name, monkeypatch):
    """Position disagreement is left out: attention weights need operations in every layer."""
    options = {**TERMS[name], "disagreement": "subspace,output"} if "dis" in name else TERMS[name]

    def started(layers):
        model = build_ours(encoder_layers=layers, decoder_layers=2)
        counts = []
        for terms in ({}, options):
            with Started() as operations:
                run(criterion(**terms), model, CASES["label_smoothed_cross_entropy"][1]())
            counts.append(operations.count)
        return counts[1] - counts[0]

    alone = started(5) - started(2)
    as_on_a_gpu(monkeypatch)
    joined = started(5) - started(2)
    # Joining copies up to three head states of a layer, and their gradients.
    assert joined < 3 * 16 and alone > 3 * joined


def test_only_small_layers_of_equal_shape_are_joined(monkeypatch):
    def layers(*lengths):
        return [HeadStates(outputs=torch.ones(2, 4, length, 3)) for length in lengths]

    assert base.join_layers(layers(5, 5), ["outputs"]) is None, "layers are not joined on a CPU"
    as_on_a_gpu(monkeypatch)
    joined = base.join_layers(layers(5, 5, 5), ["outputs"])
    assert joined.outputs.shape == (6, 4, 5, 3) and joined.weights is None
    assert joined.query_padding_mask is None
    assert base.join_layers(layers(5, 6), ["outputs"]) is None
    assert base.join_layers(layers(5), ["outputs"]) is None
    monkeypatch.setattr(base, "JOINED_ELEMENTS", 2 * 4 * 5 * 3 * 2 - 1)
    assert base.join_layers(layers(5, 5), ["outputs"]) is None
