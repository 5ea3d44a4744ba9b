"""``--compile``: the same results, and one line where it does not work."""

import copy
import logging

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from diverse_mha.common.errors import OptionError
from diverse_mha.models import compiled
from tests.toy import build_ours, log_probs, toy_batch

pytestmark = pytest.mark.integration

# Chance is drawn in another order by compiled code.
STILL = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
ROUTED = {"aggregation": "em-routing", "aggregation_encoder_layers": "1"}
EVERYWHERE = {f"aggregation_{name}_layers": "all" for name in ("encoder", "cross", "decoder")}
GATED = {"aggregation": "headwise-gate", **EVERYWHERE}


@pytest.fixture
def compiler(monkeypatch):
    """Dynamo with its own backend that runs the graph as it is: no C++ compiler, no wait."""
    torch._dynamo.reset()
    compiled._compiled_call.cache_clear()
    monkeypatch.setattr(compiled, "_BACKEND", "eager")
    compiled_call, calls = compiled._compiled_call, []

    def counted(kind):
        def run(layer, *args, **options):
            calls.append(layer)
            return compiled_call(kind)(layer, *args, **options)

        return run

    monkeypatch.setattr(compiled, "_compiled_call", counted)
    yield calls
    compiled_call.cache_clear()


def training_step(model, batch):
    model.train()
    loss = -log_probs(model, batch).amax(dim=-1).sum()
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("options", [{}, ROUTED, GATED], ids=["plain", "routed", "gated"])
def test_loss_and_gradients_are_those_without(compiler, options):
    batch = toy_batch()
    loss, gradients = training_step(build_ours(**STILL, **options), batch)
    fast, found = training_step(build_ours(compile=True, **STILL, **options), batch)
    torch.testing.assert_close(fast, loss)
    torch.testing.assert_close(found, gradients)
    plain = len(build_ours(**options).encoder.layers) - (options is ROUTED)
    assert sum(hasattr(layer, "encoder_attn") is False for layer in compiler) == plain


def test_no_kind_of_batch_uses_up_the_cases_of_another(compiler):
    """Torch leaves a function alone after 8 cases; asked to, it says so, and we fall back."""
    model = build_ours(compile=True, encoder_layers=1, decoder_layers=1).train()
    batches = [
        toy_batch(*lengths)
        for lengths in (
            ((5, 3, 4), (4, 6, 2)),
            ((5, 3, 4), (4, 4, 4)),
            ((4, 4, 4), (4, 6, 2)),
            ((4, 4, 4), (5, 5, 5)),
            ((5,), (4,)),
            ((5, 3), (1, 1)),
            ((1, 1), (3, 2)),
        )
    ]
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for wanted in ((), ("outputs",), ("values", "weights", "outputs")):
            for batch in batches:
                model(**batch["net_input"], return_head_states=wanted)
    assert model.encoder.call_layer.compiled and model.decoder.call_layer.compiled


def test_only_training_is_compiled(compiler):
    model = build_ours(compile=True).eval()
    log_probs(model, toy_batch())
    assert not compiler


def test_copies_and_parameters_are_as_without():
    plain, fast = build_ours(), build_ours(compile=True)
    assert list(plain.state_dict()) == list(fast.state_dict())
    copied = copy.deepcopy(fast)
    assert copied.encoder.call_layer.compiled


def test_a_compiler_that_fails_costs_one_line(monkeypatch, caplog):
    def broken(*args, **options):
        raise RuntimeError("no C++ compiler\nfound")

    monkeypatch.setattr(compiled, "_compiled_call", lambda kind: broken)
    compiled._warn.cache_clear()
    batch = toy_batch()
    expected, _ = training_step(build_ours(**STILL), batch)
    model = build_ours(compile=True, **STILL)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            loss, _ = training_step(model, batch)
            torch.testing.assert_close(loss, expected)
    lines = [r.getMessage() for r in caplog.records if "--compile" in r.getMessage()]
    assert len(lines) == 1, "for encoder and decoder together"
    assert "no C++ compiler found" in lines[0] and "\n" not in lines[0]


def test_a_backward_pass_that_does_not_compile_costs_one_line(compiler, monkeypatch, caplog):
    def broken(graph, inputs):
        raise RuntimeError("no such kernel")

    def as_it_is(graph, inputs):
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=as_it_is, bw_compiler=broken)
    monkeypatch.setattr(compiled, "_BACKEND", backend)
    compiled._warn.cache_clear()
    batch = toy_batch()
    expected = training_step(build_ours(**STILL), batch)
    model = build_ours(compile=True, **STILL)
    with caplog.at_level(logging.WARNING, compiled.__name__):
        torch.testing.assert_close(training_step(model, batch), expected)
    lines = [r.getMessage() for r in caplog.records if "--compile" in r.getMessage()]
    assert len(lines) == 1 and "no such kernel" in lines[0]
    assert not model.encoder.call_layer.compiled


def test_an_error_of_the_layer_itself_is_not_taken_for_the_compilers(compiler):
    calls = compiled.LayerCalls(True)
    layer = build_ours().encoder.layers[0].train()
    with pytest.raises(TypeError, match="nonsense"):
        calls(layer, torch.zeros(1, 1, 32), nonsense=1)
    assert calls.compiled


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"checkpoint_activations": True}, "--checkpoint-activations"),
        ({"offload_activations": True}, "--offload-activations"),
        ({"cascade": "mlp"}, "cascade, noise or routing"),
        ({"attention_noise": 1.0}, "cascade, noise or routing"),
        (
            {
                "aggregation": "em-routing",
                "aggregation_encoder_layers": "all",
                "aggregation_decoder_layers": "all",
            },
            "cascade, noise or routing",
        ),
    ],
    ids=["checkpoint", "offload", "cascade", "noise", "routing"],
)
def test_refused_where_it_could_do_nothing(options, culprit):
    with pytest.raises(OptionError, match=f"--compile: .*{culprit}"):
        build_ours(compile=True, **options)
