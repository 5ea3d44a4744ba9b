"""Models with projections, a sink, an elementwise gate or exclusive attention."""

import pytest
import torch

from diverse_mha.attention.core import COMPONENTS
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.ablation import sites_of
from tests.models.test_language_model import TOKENS
from tests.models.test_language_model import build as build_lm
from tests.toy import build_ours, check_beam_scores, log_probs, step_by_step, toy_batch

LAYERS = {"aggregation_encoder_layers": "all", "aggregation_decoder_layers": "2"}
FAMILY = {
    "qk-norm": {"projections": "qk-norm"},
    "knocking-heads": {"projections": "knocking-heads"},
    "value-residual": {"projections": "value-residual"},
    "sink": {"logits": "sink"},
    "elementwise-gate": {"aggregation": "elementwise-gate", **LAYERS},
    "exclusive": {"aggregation": "exclusive", **LAYERS},
    "qk-norm, residual and exclusive": {
        "projections": "qk-norm", "logits": "residual", "aggregation": "exclusive", **LAYERS,
    },
    "value-residual and mlp": {
        "projections": "value-residual", "logits": "mlp", "attention_noise": 1.0,
    },
}  # fmt: skip
STOCK_AT_START = ("knocking-heads", "value-residual")
# Endings of the methods' parameters; of a cascade those of its first layer.
OWN = ("scale", "shared", "own", "first", "logit", "gate.weight", "cascade.network.layers.0.weight")


def moved(model):
    """Add noise to the parameters of projections and logit maps, in place; return the model."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "projections." in name or "cascade." in name:
                p.add_(0.3 * torch.randn(p.shape, generator=generator))
    return model


@pytest.mark.parametrize("case", FAMILY)
def test_decoding_step_by_step_equals_teacher_forcing(case):
    model = moved(build_ours(**FAMILY[case], decoder_layers=3)).double().eval()
    batch = toy_batch(target_lengths=(5, 5, 5))
    with torch.no_grad():
        full, steps = log_probs(model, batch), step_by_step(model, batch)
    torch.testing.assert_close(steps, full, rtol=0, atol=1e-5)
    check_beam_scores(moved(build_ours(**FAMILY[case])).eval(), batch)


@pytest.mark.parametrize("case", FAMILY)
def test_every_parameter_gets_a_finite_gradient(case):
    """Gradients of the methods' own parameters are not 0."""
    model = moved(build_ours(**FAMILY[case])).double()
    log_probs(model.eval(), toy_batch()).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all(), name
        assert p.grad.any() or not name.endswith(OWN), name


@pytest.mark.parametrize("case", STOCK_AT_START)
def test_initial_outputs_equal_plain_attention(case):
    plain, ours = build_ours(), build_ours(**FAMILY[case])
    ours.load_state_dict(plain.state_dict(), strict=False)
    batch = toy_batch()
    torch.testing.assert_close(log_probs(ours.eval(), batch), log_probs(plain.eval(), batch))


def test_value_residual_adds_the_projected_values_of_layer_1():
    """Values of layer 2 are a weighted sum of the projected values of layers 1 and 2."""
    model = moved(build_ours(projections="value-residual")).double().eval()
    projected = {}
    for site in sites_of(model):
        site.attention.v_proj.register_forward_hook(
            lambda _, __, out, key=(site.component, site.number): projected.update({key: out})
        )
    with torch.no_grad():
        _, extra = model(**toy_batch()["net_input"], return_head_states=("values",))
    records = {**extra["head_states"]}
    assert set(records) == {"encoder", "cross", "decoder"}
    for component, layers in records.items():
        (site,) = [s for s in sites_of(model) if (s.component, s.number) == (component, 2)]
        first, own = (site.attention.split_heads(projected[component, n]) for n in (1, 2))
        assert torch.equal(layers[0].values, first)  # nothing is added in layer 1
        part = site.attention.projections
        assert part.first != 0
        torch.testing.assert_close(layers[1].values, part.own * own + part.first * first)


def test_under_layer_drop_the_first_layer_that_runs_gives_the_values():
    drop = {
        f"{side}_{x}": v
        for side in ("encoder", "decoder")
        for x, v in (("layers", 3), ("layerdrop", 0.5))
    }
    model = moved(build_ours(projections="value-residual", **drop)).double()
    model.eval()  # in training the loop over layers would drop some
    projected, ran = {}, []

    def record(site, out):
        projected[site.component, site.number] = out
        ran.append(site)

    for site in sites_of(model):
        site.attention.v_proj.register_forward_hook(lambda _, __, out, s=site: record(s, out))
    model.train()
    firsts = set()
    for seed in range(16):
        torch.manual_seed(seed)
        ran.clear()
        log_probs(model, toy_batch()).sum().backward()
        torch.manual_seed(seed)
        ran.clear()
        _, extra = model(**toy_batch()["net_input"], return_head_states=("values",))
        for component, layers in extra["head_states"].items():
            sites = [site for site in ran if site.component == component]
            assert len(sites) == len(layers)
            values = [s.attention.split_heads(projected[component, s.number]) for s in sites]
            for place, (site, own, found) in enumerate(zip(sites, values, layers, strict=True)):
                part, expected = site.attention.projections, own
                if place:
                    expected = part.own * own + part.first * values[0]
                torch.testing.assert_close(found.values, expected)
            firsts |= {(component, sites[0].number)} if sites else set()
    assert {component for component, number in firsts if number > 1} == set(COMPONENTS)


@pytest.mark.parametrize("case", ["qk-norm", "value-residual", "sink", "exclusive"])
def test_projections_sink_and_exclusive_attention_keep_language_models_causal(case):
    given = {k: v for k, v in FAMILY[case].items() if "encoder" not in k}
    model = moved(build_lm(**given)).double().eval()
    longer = torch.cat([TOKENS, TOKENS[:, :1]], dim=1)
    with torch.no_grad():
        short, long = (model(src_tokens=x)[0] for x in (TOKENS, longer))
    # A further token does not change the outputs at earlier positions.
    torch.testing.assert_close(long[:, : TOKENS.size(1)], short, rtol=0, atol=1e-5)


REFUSED = {
    "--projections value-residual: needs at least two layers in one component of "
    "--projections-on decoder": {
        "projections": "value-residual", "projections_on": "decoder", "decoder_layers": 1,
    },
    "--projections-on encoder: no effect without --projections; give a method": {
        "projections_on": "encoder"
    },
    "--projections norm: choose from none": {"projections": "norm"},
    "--aggregation exclusive: a query of the encoder-decoder attention has no value": {
        "aggregation": "exclusive", "aggregation_cross_layers": "1",
    },
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_combinations_of_options_are_refused(message):
    with pytest.raises(UserError, match=message):
        build_ours(**REFUSED[message])


def test_projections_act_only_in_the_given_components():
    model = build_ours(projections="qk-norm", projections_on="cross")
    having = {s.component for s in sites_of(model) if s.attention.projections is not None}
    assert having == {"cross"}
