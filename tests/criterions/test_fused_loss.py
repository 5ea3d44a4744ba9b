"""The fused token loss equals that of fairseq."""

import functools

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.nn.utils import prune

from diverse_mha.criterions import fused_loss, token_loss
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss
from tests.criterions.test_terms import criterion, lm_batch, run
from tests.criterions.test_translation_and_lm import ours
from tests.models.test_language_model import ADAPTIVE
from tests.models.test_language_model import build as build_lm
from tests.toy import build_ours, toy_batch

PAD = 1


def inputs(rows=(3, 7), width=6, words=11, dtype=torch.float64):
    generator = torch.Generator().manual_seed(4)
    features = torch.randn(*rows, width, generator=generator, dtype=torch.float64)
    weight = torch.randn(words, width, generator=generator, dtype=torch.float64)
    target = torch.randint(0, words, rows, generator=generator)
    target[0, 2:5] = PAD
    return features.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), target


@pytest.fixture(params=["cpu", "gpu"])
def loss_of(request):
    """The fused loss as on a CPU, and as on a GPU, where the host must not wait for the device."""
    return functools.partial(fused_label_smoothed_loss, may_wait=request.param == "cpu")


def stock(features, weight, target, epsilon):
    scores = torch.log_softmax(features @ weight.t(), dim=-1).flatten(0, -2)
    return label_smoothed_nll_loss(scores, target.flatten(), epsilon, ignore_index=PAD)


@pytest.mark.parametrize("block", [1, 4, 256])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_loss_and_gradients_equal_those_of_fairseq(epsilon, block, loss_of, monkeypatch):
    monkeypatch.setattr(fused_loss, "BLOCK_ROWS", block)
    monkeypatch.setattr(fused_loss, "BLOCK_SIZE", 11 * block)
    features, weight, target = inputs()
    results = []
    for loss, nll in (
        loss_of(features, weight, target, epsilon, PAD),
        stock(features, weight, target, epsilon),
    ):
        gradients = torch.autograd.grad(2.5 * loss, (features, weight))
        results.append((loss, nll.detach(), *gradients))
    for fused, other in zip(*results, strict=True):
        torch.testing.assert_close(fused, other.detach(), rtol=1e-9, atol=1e-12)


def test_validation_computes_no_gradients(monkeypatch):
    features, weight, target = inputs()
    made = []
    monkeypatch.setattr(torch, "zeros_like", lambda *a, **k: made.append(a))
    with torch.no_grad():
        loss, _ = fused_label_smoothed_loss(features, weight, target, 0.1, PAD)
    assert not made and not loss.requires_grad


def test_large_scores_and_a_batch_of_padding_stay_finite(loss_of):
    features, weight, target = inputs(dtype=torch.float32)
    loss, _ = loss_of(features * 1e4, weight, target, 0.1, PAD)
    loss.backward()
    assert loss.isfinite() and features.grad.isfinite().all() and weight.grad.isfinite().all()
    loss, nll = loss_of(features, weight, torch.full_like(target, PAD), 0.1, PAD)
    loss.backward()
    assert loss == 0 and nll == 0


def test_padding_is_never_read(loss_of):
    features, weight, target = inputs()
    results = []
    for there in (0.0, float("nan")):
        with torch.no_grad():
            features[target.eq(PAD)] = there
        loss, nll = loss_of(features, weight, target, 0.1, PAD)
        results.append((loss, nll, *torch.autograd.grad(loss, (features, weight))))
    for clean, poisoned in zip(*results, strict=True):
        assert torch.equal(clean, poisoned)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_near_float32(dtype, loss_of):
    features, weight, target = inputs(dtype=dtype)
    loss, _ = loss_of(features, weight, target, 0.1, PAD)
    loss.backward()
    reference = [x.detach().float().requires_grad_() for x in (features, weight)]
    expected, _ = stock(*reference, target, 0.1)
    expected.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=2e-2, atol=0)
    for got, want in zip((features.grad, weight.grad), (r.grad for r in reference), strict=True):
        torch.testing.assert_close(got.float(), want, rtol=5e-2, atol=5e-2)


def test_float16_gradients_are_accurate_for_a_vocabulary_beyond_its_range(loss_of):
    """Before normalisation, a uniform distribution adds up to the vocabulary size of 80,000."""
    features, weight, target = inputs(words=80_000)
    found = []
    for dtype in (torch.float64, torch.float16):
        parts = [(0.02 * x).detach().to(dtype).requires_grad_() for x in (features, weight)]
        loss, _ = loss_of(*parts, target, 0.0, PAD)
        found.append([x.double() for x in torch.autograd.grad(loss, parts)])
    for exact, rounded in zip(*found, strict=True):
        assert (rounded - exact).norm() < 2e-3 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_a_large_batch_as_accurately_as_fairseq(dtype):
    """Half of the targets are one word, whose gradient is a sum of many small values."""
    features, weight, target = inputs(rows=(128, 256), width=32, words=300)
    target[:, ::2] = 5
    weight = weight.detach() * 32**-0.5
    found = []
    for kind, loss in (
        (torch.float64, stock),
        (dtype, lambda *given: fused_label_smoothed_loss(*given, PAD)),
        (dtype, stock),
    ):
        w = weight.to(dtype).to(kind).requires_grad_()
        value, _ = loss(features.detach().to(dtype).to(kind), w, target, 0.1)
        found.append(torch.autograd.grad(value, w)[0].double())
    exact, *errors = found[0], *((one - found[0]).norm() for one in found[1:])
    assert errors[0] < 2 * errors[1], [float(error / exact.norm()) for error in errors]


def test_a_loss_scale_may_exceed_the_range_of_half_precision(loss_of):
    features, weight, target = inputs(dtype=torch.float16)
    features, weight = (x.detach().mul(0.1).requires_grad_() for x in (features, weight))
    reference = [x.detach().double().requires_grad_() for x in (features, weight)]
    results = []
    for loss in (
        loss_of(features, weight, target, 0.1, PAD)[0],
        loss_of(*reference, target, 0.1, PAD)[0],
    ):
        inputs_of = (features, weight) if not results else reference
        results.append(torch.autograd.grad(loss * 2.0**17, inputs_of))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=2e-3 * 2.0**17)


def assert_same(fused, plain):
    """Assert that two results of ``run`` are equal: loss, sample size, log and gradients."""
    # fairseq's log-softmax is always in float32
    torch.testing.assert_close(fused[0].reshape(()).float(), plain[0].reshape(()).float())
    assert fused[1] == plain[1] and fused[2].keys() == plain[2].keys()
    for name, value in plain[2].items():
        assert float(fused[2][name]) == pytest.approx(float(value)), name
    torch.testing.assert_close(fused[3], plain[3], rtol=1e-5, atol=1e-7)


TIED = {
    "label_smoothed_cross_entropy": (lambda: build_ours(share_all_embeddings=True), toy_batch),
    "cross_entropy": (lambda: build_lm(share_decoder_input_output_embed=True), lm_batch),
}


@pytest.mark.parametrize(
    "name, prefix", [*((name, {}) for name in TIED), (next(iter(TIED)), {"ignore_prefix_size": 2})]
)
def test_a_criterion_has_the_same_loss_and_gradients_fused_or_not(name, prefix):
    build, make_batch = TIED[name]
    model, options = build().double(), {"disagreement": "output", **prefix}
    ways = (criterion(name, token_loss=how, **options) for how in ("auto", "stock"))
    assert_same(*(run(term, model, make_batch()) for term in ways))


UNTIED = {**ADAPTIVE, "tie_adaptive_weights": False, "tie_adaptive_proj": False}
SOFTMAXES = {
    "tied": ADAPTIVE,
    "tied words": {**ADAPTIVE, "tie_adaptive_proj": False},
    "untied": {name: value for name, value in UNTIED.items() if "input" not in name},
    "dropout": {**ADAPTIVE, "adaptive_softmax_dropout": 0.3},
    "narrow": {**UNTIED, "decoder_output_dim": 8},
    "a cluster of one word": {**UNTIED, "adaptive_softmax_cutoff": "5,6"},
    "one cluster": {**UNTIED, "adaptive_input_cutoff": "10", "adaptive_softmax_cutoff": "10"},
}


@pytest.mark.parametrize("case", SOFTMAXES)
def test_an_adaptive_softmax_has_the_same_loss_and_gradients_fused_or_not(case):
    """Targets are in all clusters, or in the head only.

    The index of one target in its cluster equals that of padding, so fairseq leaves out the loss
    in the cluster.
    """
    model, batch = build_lm(**SOFTMAXES[case]).double().train(), lm_batch()
    softmax = model.decoder.adaptive_softmax
    first = softmax.cutoff[0]
    targets = batch["target"], torch.full_like(batch["target"], first - 1)
    assert (targets[0] == first + PAD).any() or case == "one cluster"
    for target in targets:
        batch["target"], results = target, []
        for how in ("auto", "stock"):
            torch.manual_seed(8)
            term = criterion("adaptive_loss", token_loss=how, disagreement="output")
            results.append(run(term, model, batch))
        assert_same(*results)


def test_an_adaptive_softmax_with_hooks_is_not_fused():
    model, batch = build_lm(**ADAPTIVE), lm_batch()
    called = []
    for part in (model.decoder.adaptive_softmax.head, model.decoder.adaptive_softmax.tail[0][-1]):
        criterion("adaptive_loss", token_loss="auto")(model, batch)
        assert not called
        handle = part.register_forward_hook(lambda *_: called.append(1))
        criterion("adaptive_loss", token_loss="auto")(model, batch)
        assert called.pop() and not called
        handle.remove()


def test_auto_is_fused_unless_an_option_needs_logits(monkeypatch):
    calls = []
    original = token_loss.fused_label_smoothed_loss
    monkeypatch.setattr(
        token_loss,
        "fused_label_smoothed_loss",
        lambda *a: (calls.append(1), original(*a))[1],
    )
    model, batch = build_ours(), toy_batch()
    for options, expected in (
        ({}, 1),
        ({"report_accuracy": True}, 0),
        ({"token_loss": "stock"}, 0),
        ({"disagreement": "output"}, 1),
        ({"disagreement": "output", "report_accuracy": True}, 0),
        ({"disagreement": "output", "token_loss": "stock"}, 0),
    ):
        calls.clear()
        ours(**options)(model, batch)
        assert len(calls) == expected, options
    calls.clear()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours()(model, batch)
    assert not calls, "the loss is not fused under autocast"


PREPARED = {
    "hook": lambda linear: linear.register_forward_hook(lambda module, given, out: 2 * out),
    "backward hook": lambda linear: linear.register_full_backward_hook(lambda *_: None),
    "pre-hook": lambda linear: linear.register_forward_pre_hook(lambda module, given: None),
    "pruned": lambda linear: prune.l1_unstructured(linear, "weight", 0.5),
    "weight norm": torch.nn.utils.weight_norm,
}


@pytest.mark.filterwarnings("ignore:.*weight_norm")
@pytest.mark.parametrize("case", PREPARED)
def test_a_projection_with_hooks_or_reparametrisation_is_not_fused(case):
    model, batch = build_ours(), toy_batch()
    PREPARED[case](model.decoder.output_projection)
    assert model.output_weight() is None
    auto, stock = (run(ours(token_loss=how), model, batch)[0] for how in ("auto", "stock"))
    torch.testing.assert_close(auto, stock, rtol=0, atol=0)
