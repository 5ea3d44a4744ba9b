"""transformer_coda: its cascade, noise, ablations and decoding."""

import pytest
import torch
import torch.nn.functional as F

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.ablation import sites_of
from diverse_mha.methods.coda import NetworkCascade, NoCascade, ResidualCascade
from tests.toy import build_ours, check_beam_scores, log_probs, step_by_step, toy_batch

# Zheng et al. 2021, Table 4.
ABLATIONS = {
    "CODA": {},
    "CODA-CS": {"logits": "none"},
    "RealFormer": {"logits": "residual", "attention_noise": 0.0},
    "Transformer": {"logits": "none", "attention_noise": 0.0},
}


def test_options_give_the_ablations_of_table_4():
    kinds = {
        name: [type(s.attention.cascade) for s in sites_of(build_ours("transformer_coda", **given))]
        for name, given in ABLATIONS.items()
    }
    # Three components with two layers each.
    assert kinds["CODA"] == 3 * [NoCascade, NetworkCascade]
    assert kinds["CODA-CS"] == 6 * [NoCascade]
    assert kinds["RealFormer"] == 3 * [type(None), ResidualCascade]
    assert kinds["Transformer"] == 6 * [type(None)]


def test_coda_without_cascade_and_noise_equals_transformer_disagree():
    plain = build_ours(dropout=0.1)
    coda = build_ours("transformer_coda", dropout=0.1, **ABLATIONS["Transformer"])
    batch = toy_batch()
    results = []
    for model in (plain, coda):
        torch.manual_seed(5)
        scores = log_probs(model.train(), batch)
        scores.square().sum().backward()
        results.append([scores, *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("row", ABLATIONS)
def test_noise_is_added_in_training_only(row):
    model = build_ours("transformer_coda", **ABLATIONS[row])
    batch = toy_batch()
    trained = [log_probs(model.train(), batch) for _ in range(2)]
    tested = [log_probs(model.eval(), batch) for _ in range(2)]
    assert torch.equal(*tested), "evaluation is deterministic"
    assert torch.equal(*trained) == (row in ("RealFormer", "Transformer"))


def literal_encoder_logits(model, batch, form) -> list[torch.Tensor]:
    """Return an encoder's mean logits of each layer, by the equations in docs/equations.md."""
    tokens = batch["net_input"]["src_tokens"]
    padding = tokens.eq(1)
    x, _ = model.encoder.forward_embedding(tokens)
    x = x.masked_fill(padding[:, :, None], 0.0)
    dead = padding[:, None, None, :]
    means, contributions = [], []
    for layer in model.encoder.layers:
        attn = layer.self_attn
        heads = [
            p(x).view(*x.shape[:2], attn.num_heads, -1).transpose(1, 2)
            for p in (attn.q_proj, attn.k_proj, attn.v_proj)
        ]
        z = heads[0] @ heads[1].transpose(-1, -2) * attn.head_dim**-0.5
        added = 0.0
        if means:
            mean = sum(contributions) / len(contributions)
            added = means[-1] if form == "sum" else mean
            y = (z + added).masked_fill(dead, 0.0).permute(0, 2, 3, 1)
            hidden = y
            network = getattr(attn.cascade, "network", None)
            layers = network.layers if network else ()
            for depth, linear in enumerate(layers, start=1):
                hidden = hidden @ linear.weight.T + linear.bias
                if depth < len(layers):
                    hidden = F.leaky_relu(hidden, 0.2)
            z = (y + hidden if network else y).permute(0, 3, 1, 2)
        means.append(z)
        contributions.append(z - added)
        o = z.masked_fill(dead, float("-inf")).softmax(-1) @ heads[2]
        o = attn.out_proj(o.transpose(1, 2).reshape(x.shape))
        x = layer.self_attn_layer_norm(x + o)
        x = layer.final_layer_norm(x + layer.fc2(F.relu(layer.fc1(x))))
    return means


@pytest.mark.parametrize("form", ["sum", "mean"])
@pytest.mark.parametrize("kind", ["residual", "mlp"])
def test_encoder_outputs_and_gradients_equal_the_equations(kind, form):
    options = {"logits": kind, "cascade_form": form, "attention_noise": 0.0}
    model = build_ours("transformer_coda", encoder_layers=4, **options).double().eval()
    batch = toy_batch()
    _, extra = model(**batch["net_input"], return_head_states=("logits",))
    alive = ~batch["net_input"]["src_tokens"].eq(1)
    cells = (alive[:, None, :, None] & alive[:, None, None, :]).expand(-1, 4, -1, -1)
    ours = [record.logits for record in extra["head_states"]["encoder"]]
    sides = []
    for logits in (ours, literal_encoder_logits(model, batch, form)):
        kept = torch.stack([one[cells] for one in logits])
        model.zero_grad()
        kept.square().sum().backward()
        grads = {n: p.grad for n, p in model.encoder.named_parameters() if p.grad is not None}
        sides.append((kept, grads))
    torch.testing.assert_close(*sides, rtol=1e-8, atol=1e-8)
    assert kind == "residual" or any("cascade" in name for name in sides[0][1])


def test_layerdrop_passes_logits_over_dropped_layers():
    model = build_ours(
        "transformer_coda", encoder_layers=4, encoder_layerdrop=0.5, decoder_layerdrop=0.5
    ).eval()  # in training the loop over layers would drop some
    received, passed = [], []
    for layer in model.encoder.layers:
        layer.self_attn.register_forward_pre_hook(
            lambda _, __, given: received.append(given["previous_logits"]), with_kwargs=True
        )
        layer.self_attn.register_forward_hook(lambda _, __, out: passed.append(out.logits))
    model.train()
    counts = set()
    for seed in range(8):
        torch.manual_seed(seed)
        received.clear(), passed.clear()
        log_probs(model, toy_batch()).sum().backward()
        assert all(x is y for x, y in zip(received, [None, *passed], strict=False))
        counts.add(len(received))
    assert len(counts) > 1, "some layers are dropped"


def test_layers_left_out_by_layer_drop_count_as_the_mean_of_those_before():
    options = {"logits": "residual", "cascade_form": "mean", "attention_noise": 0.0}
    model = build_ours("transformer_coda", encoder_layers=5, encoder_layerdrop=0.5, **options)
    model.double().eval()  # in training the loop over layers would drop some
    ran = []  # (number, logits of the layers before, logits for the next layer)
    for number, layer in enumerate(model.encoder.layers, start=1):
        layer.self_attn.register_forward_hook(
            lambda _, __, given, out, n=number: ran.append(
                (n, given["previous_logits"], out.logits)
            ),
            with_kwargs=True,
        )
    model.train()
    batch, skipped = toy_batch()["net_input"], 0
    for seed in range(16):
        torch.manual_seed(seed)
        ran.clear()
        encoded = model.encoder(batch["src_tokens"], return_head_states=("logits",))
        contributions = []  # of layers 1, 2, ..., where those left out are filled in
        for (number, before, passed), states in zip(ran, encoded["head_states"], strict=True):
            skipped += number - len(contributions) - 1
            while contributions and len(contributions) < number - 1:
                contributions.append(sum(contributions) / len(contributions))
            own = states.logits if before is None else states.logits - before
            contributions += [own] if contributions else number * [own]
            torch.testing.assert_close(passed, sum(contributions) / number)
    assert skipped > 8


REFUSED = {
    "--attention-noise -1.0: must be 0 or positive": {"attention_noise": -1.0},
    "--cascade-hidden-ratio 0: must be 1 or more": {"cascade_hidden_ratio": 0},
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_values_of_cascade_options_are_refused(message):
    with pytest.raises(ValueError, match=message):
        build_ours("transformer_coda", **REFUSED[message])


# Components with a cascade, and the mean over the layers below.


@pytest.mark.parametrize("on", [("encoder",), ("cross",), ("decoder",), ("encoder", "cross")])
@pytest.mark.parametrize("kind", ["none", "residual", "mlp", "talking-heads"])
def test_logits_change_only_in_the_given_components(kind, on):
    options = {"logits": kind, "logits_on": ",".join(on)}
    if kind != "none":
        options["attention_noise"] = 0.0
    model = build_ours("transformer_coda", **options)
    for component, number, _, attention in sites_of(model):
        carries = kind in ("residual", "mlp") and component in on
        assert attention.carry_logits == carries
        assert number == 1 or (attention.cascade is not None) == (component in on)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"logits_on": "encoder,kross"}, "--logits-on encoder,kross: unknown 'kross'"),
        ({"logits_on": "encoder", "logits": "none", "attention_noise": 0.0}, "no effect"),
        (
            {"logits_on": "decoder", "decoder_layers": 1},
            "needs at least two layers in one component of --logits-on decoder;",
        ),
        ({"logits": "none", "cascade_form": "mean"}, "--cascade-form mean"),
        (
            {"attention_noise": 0.0, "attention_samples": 4},
            "--attention-samples 4: all samples",
        ),
    ],
)
def test_options_of_the_cascade_without_effect_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_ours("transformer_coda", **options)


@pytest.mark.parametrize("on", [None, "cross", "decoder"])
@pytest.mark.parametrize("kind", ["residual", "mlp"])
def test_mean_cascade_step_by_step_equals_the_full_pass(kind, on):
    options = {"logits": kind, "cascade_form": "mean", "logits_on": on, "decoder_layers": 4}
    model = build_ours("transformer_coda", attention_noise=0.0, **options).double().eval()
    batch = toy_batch(target_lengths=(5, 5, 5))
    with torch.no_grad():
        full, steps = log_probs(model, batch), step_by_step(model, batch)
    torch.testing.assert_close(steps, full, rtol=0, atol=1e-5)
    check_beam_scores(build_ours("transformer_coda", **options).eval(), batch)


SAMPLED = {
    "CODA": {},
    "as printed": {"cascade_network_input": "previous", "cascade_depth": 1},
    "mean": {"cascade_form": "mean"},
    "CODA-CS": {"logits": "none"},
}


@pytest.mark.parametrize("row", SAMPLED)
def test_samples_with_negligible_noise_equal_the_mean(row):
    """A full pass and decoding step by step give the mean's results; beam scores agree."""
    given = SAMPLED[row] | {"attention_noise": 1e-12, "decoder_layers": 3}
    mean, sampled = (
        build_ours("transformer_coda", **given, attention_samples=count).double().eval()
        for count in (0, 3)
    )
    sampled.load_state_dict(mean.state_dict())
    batch = toy_batch(target_lengths=(5, 5, 5))
    with torch.no_grad():
        expected = log_probs(mean, batch)
        torch.testing.assert_close(log_probs(sampled, batch), expected, rtol=0, atol=1e-8)
        torch.testing.assert_close(step_by_step(sampled, batch), expected, rtol=0, atol=1e-5)
        wanted = ("logits", "weights")
        states = [m(**batch["net_input"], return_head_states=wanted)[1] for m in (mean, sampled)]
    for layers in zip(*(s["head_states"]["cross"] for s in states), strict=True):
        for name in wanted:
            one, other = (getattr(layer, name) for layer in layers)
            torch.testing.assert_close(one, other, rtol=0, atol=1e-8)
    check_beam_scores(sampled, batch)


def test_evaluation_draws_several_samples_and_training_one():
    model = build_ours("transformer_coda", attention_samples=8)
    single = build_ours("transformer_coda")
    single.load_state_dict(model.state_dict())
    batch = toy_batch()
    with torch.no_grad():
        assert not torch.equal(*(log_probs(model.eval(), batch) for _ in range(2)))
        trained = []
        for m in (model, single):
            torch.manual_seed(3)
            trained.append(log_probs(m.train(), batch))
    assert torch.equal(*trained)
