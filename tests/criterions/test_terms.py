"""Terms in the loss of every criterion, alone and combined."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass.utils import merge_with_parent
from fairseq.logging import metrics
from omegaconf import OmegaConf

from diverse_mha.criterions.diversity import DiversityConfig
from diverse_mha.methods.diversity import DiversityTerms
from tests import reference, reference_diversity
from tests.models.test_language_model import ADAPTIVE, TOKENS
from tests.models.test_language_model import build as build_lm
from tests.toy import build_ours, toy_batch, toy_dictionary

TASK = SimpleNamespace(target_dictionary=toy_dictionary())
COMPONENTS = ("encoder", "cross", "decoder")
MASKS = {"queries": "query", "keys": "key", "values": "key", "outputs": "query"}


def criterion(name="label_smoothed_cross_entropy", **options):
    """Build one of our criterions as fairseq does; without options it has no terms."""
    name += "_with_diversity"
    if name.startswith("label"):
        options.setdefault("label_smoothing", 0.1)
    options.setdefault("token_loss", "stock")
    config = CRITERION_DATACLASS_REGISTRY[name](**{"sentence_avg": False, **options})
    if name.startswith("adaptive"):
        config.ddp_backend = "legacy_ddp"
    return CRITERION_REGISTRY[name].build_criterion(config, TASK)


def lm_batch():
    batch = {"net_input": {"src_tokens": TOKENS}, "target": TOKENS.roll(-1, 1)}
    return {**batch, "ntokens": 10, "nsentences": 2}


CASES = {
    "label_smoothed_cross_entropy": (build_ours, toy_batch),
    "cross_entropy": (build_lm, lm_batch),
    "adaptive_loss": (lambda: build_lm(**ADAPTIVE), lm_batch),
}
OPTIONS = {
    "hsic": {"hsic_weight": 0.3},
    "mean-on-decoder": {
        "hsic_weight": 0.3,
        "hsic_normalization": "mean",
        "hsic_on": "decoder",
    },
    "cka": {"cka_weight": 0.4},
    "cka-target": {"cka_weight": 3.0, "cka_target": 0.3, "cka_on": "decoder"},
    "orthogonality": {"orthogonality_weight": 0.7, "orthogonality_method": "exact"},
    "srip-alone": {
        "orthogonality_weight": 0.7,
        "orthogonality_cosine_projections": "none",
        "orthogonality_method": "exact",
    },
    "summed-loss": {
        "orthogonality_weight": 0.7,
        "orthogonality_on": "decoder,encoder",
        "orthogonality_normalization": "summed-loss",
        "orthogonality_method": "exact",
    },
    "forms": {
        "disagreement": "subspace,output",
        "disagreement_form": "centred,squared",
        "disagreement_weight": 2,
        "disagreement_on": "encoder,decoder",
    },
    "off-diagonal": {
        "disagreement": "subspace,position,output",
        "disagreement_form": "off-diagonal",
        "disagreement_weight": 0.5,
    },
    "all": {
        "disagreement": "subspace,position,output",
        "disagreement_weight": 0.5,
        "hsic_weight": 0.3,
        "cka_weight": 0.4,
        "orthogonality_weight": 0.7,
        "orthogonality_cosine_projections": "k",
        "orthogonality_method": "exact",
    },
}


def run(criterion, model, batch, **given):
    model.zero_grad()
    loss, size, log = criterion(model, batch, **given)
    loss.sum().backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return loss.detach(), size, log, [g.clone() for g in grads]


def by_hand(head_states, options, size) -> dict[str, tuple[dict, torch.Tensor]]:
    """Return each term's values by component and loss, computed by the slow references.

    Values are averaged over layers.
    """

    def mask(s, state):
        return getattr(s, MASKS[state] + "_padding_mask")

    form = options.get("disagreement_form", "").split(",")

    def cosine(state, form=()):
        return lambda s: reference.cosine_disagreement(getattr(s, state), mask(s, state), form)

    def position(s):
        masks = s.query_padding_mask, s.key_padding_mask
        return reference.position_disagreement(s.weights, *masks, form=[f for f in form if f])

    def hsic(s):
        return reference_diversity.hsic(
            reference_diversity.real_rows(s.outputs, s.query_padding_mask),
            options.get("hsic_normalization", DiversityConfig.hsic_normalization),
        )

    def cka(s):
        return reference_diversity.cka(
            reference_diversity.real_rows(s.outputs, s.query_padding_mask)
        )

    def srip(s):
        """Return the spectral norm of V^T V - I, averaged over positions.

        At each position, the columns of V are the values of the heads.
        """
        rows = reference_diversity.real_rows(s.values, s.key_padding_mask)
        rows = torch.stack(rows, dim=1)  # (N, H, D)
        gap = rows @ rows.transpose(1, 2) - torch.eye(rows.size(1))
        return torch.linalg.eigvalsh(gap).abs().amax(dim=1).mean()

    def summed(functions):
        return lambda s: sum(function(s) for function in functions)

    states = {"q": "queries", "k": "keys", "v": "values"}
    of_layer = {}
    for kind in options.get("disagreement", "").split(","):
        state = {"subspace": "values", "output": "outputs"}.get(kind)
        if kind:
            name = f"disagreement_{kind}"
            of_layer[name] = cosine(state, form) if state else position
    if "hsic_weight" in options:
        of_layer["hsic"] = hsic
    if "cka_weight" in options:
        of_layer["cka"] = cka
    if "orthogonality_weight" in options:
        of_layer["orthogonality"] = srip
        on = options.get("orthogonality_cosine_projections", "q,k,v")
        if on != "none":
            cosines = summed([cosine(states[letter]) for letter in on.split(",")])
            of_layer["orthogonality_cosine"] = lambda s: -cosines(s)
    return {
        name: in_batch(function, name.split("_")[0], head_states, options, size)
        for name, function in of_layer.items()
    }


def in_batch(of_layer, method, head_states, options, size):
    """Return a term's value by component, and what the term adds to the mean loss."""
    weight = float(options.get(f"{method}_weight", 1.0))
    on = options.get(f"{method}_on", ",".join(COMPONENTS)).split(",")
    values, loss = {}, 0.0
    for component in COMPONENTS:
        if component not in on or component not in head_states:
            continue
        layers = [of_layer(s) for s in head_states[component]]
        values[component] = float(sum(layers) / len(layers))
        if method == "cka" and "cka_target" in options:
            layers = [(layer - options["cka_target"]) ** 2 for layer in layers]
        sign = -1 if method == "disagreement" else 1
        reading = options.get("orthogonality_normalization", "summed-loss")  # the option's default
        summed = method == "orthogonality" and reading == "summed-loss"
        loss = loss + sign * weight * sum(layers) / (size if summed else len(layers))
    return values, loss


def in_the_log(values) -> dict[str, float]:
    """Return a term's values in the log: the sum over components and, of several, each."""
    logged = {}
    for name, (by_component, _) in values.items():
        logged[name] = sum(by_component.values())
        if len(by_component) > 1:
            logged |= {f"{name}_{component}": x for component, x in by_component.items()}
    return logged


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradients_are_the_token_loss_plus_the_weighted_reference_terms(name, case):
    options, (build, make_batch) = OPTIONS[case], CASES[name]
    if "adaptive" in name or name == "cross_entropy":  # a language model has one component
        options = {k: "decoder" if k.endswith("_on") else v for k, v in options.items()}
    model, batch = build().double(), make_batch()
    loss, size, log, grads = run(criterion(name, **options), model, batch)

    model.zero_grad()
    plain, _, plain_log = criterion(name)(model, batch)
    wanted = ("queries", "keys", "values", "weights", "outputs")
    states = model(**batch["net_input"], return_head_states=wanted)[1]["head_states"]
    values = by_hand(states, options, size)
    expected = plain + size * sum(part for _, part in values.values())
    expected.backward()
    logged = in_the_log(values)
    names = (*logged, "diversity_loss")
    added = {f"{prefix}/{name}" for prefix in ("term", "term_size") for name in names}
    assert log.keys() - plain_log.keys() == added
    for key, value in logged.items():
        assert not log[f"term/{key}"].requires_grad, "logged values carry no gradient"
        assert float(log[f"term/{key}"]) == pytest.approx(size * value, rel=1e-9), key
    # fairseq computes the log-softmax in float32.
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-6, atol=0)
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        by_autograd = torch.zeros_like(grad) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(grad, by_autograd, rtol=1e-4, atol=1e-5)


def test_samples_are_drawn_in_training_and_not_in_validation():
    model, batch = build_ours().eval(), toy_batch()
    sampled = criterion(hsic_weight=1.0, hsic_samples=4)

    def value():
        with torch.no_grad():
            return float(sampled(model, batch)[2]["term/hsic"])

    drawn = {value() for _ in range(5)}
    assert len(drawn) == 5
    torch.manual_seed(0)
    first = value()
    torch.manual_seed(0)
    assert value() == first
    sampled.eval()
    state = torch.get_rng_state()
    assert value() == value()
    assert torch.equal(torch.get_rng_state(), state)


def test_every_term_is_logged_without_rounding_to_zero():
    model, batch = build_ours().eval(), toy_batch()
    everything = criterion(**{**OPTIONS["all"], "hsic_normalization": "mean"}).eval()
    with torch.no_grad():
        model.decoder.layers[0].self_attn.v_proj.weight.mul_(0.01)
        model.decoder.layers[0].self_attn.v_proj.bias.mul_(0.01)
        other = toy_batch(target_lengths=(9, 7, 8), seed=9)
        logs = [everything(model, batch)[2], everything(model, other)[2]]
    with metrics.aggregate() as meters:
        type(everything).reduce_metrics(logs)
    logged = meters.get_smoothed_values()
    sizes = sum(log["sample_size"] for log in logs)
    names = [name.removeprefix("term/") for name in logs[0] if name.startswith("term/")]
    assert len(names) == 7 * 4  # each term, and its part of three components
    for name in names:
        mean = sum(float(log["term/" + name]) for log in logs) / sizes
        assert mean != 0 and float(logged[name]) == pytest.approx(mean, rel=1e-5)
    with metrics.aggregate(new_root=True) as in_turn:  # one log at a time, as in training
        for log in logs:
            type(everything).reduce_metrics([log])
    shown = in_turn.get_smoothed_values()
    for name in names:
        assert float(shown[name]) == pytest.approx(float(logged[name]), rel=1e-5)


def test_a_held_value_is_logged_of_each_component():
    """The log must show whether every component has reached the target, here CKA's maximum of 1."""
    model, batch = build_ours().eval(), toy_batch()
    for name, parameter in model.named_parameters():
        if "_proj" in name:  # all heads of a layer compute the same
            parameter.data = torch.cat(parameter.data.chunk(4)[:1] * 4)
    log = criterion(cka_weight=1.0, cka_target=1.0).eval()(model, batch)[2]
    size = log["term_size/cka"]
    assert {c: float(log[f"term/cka_{c}"]) / size for c in COMPONENTS} == pytest.approx(
        dict.fromkeys(COMPONENTS, 1.0), rel=1e-5
    )


def test_only_states_of_active_terms_are_requested():
    def wanted(**options):
        return DiversityTerms.from_config(DiversityConfig(**options)).wanted

    assert wanted() == ()
    assert wanted(hsic_weight=1e-7) == ("outputs",)
    assert wanted(orthogonality_weight=1.0, orthogonality_cosine_projections="none") == ("values",)
    assert wanted(orthogonality_weight=1.0) == ("values", "queries", "keys")
    assert wanted(disagreement="output", hsic_weight=1.0) == ("outputs",)


def test_states_are_requested_only_from_components_of_a_term():
    """Attention that returns weights is slower, so weights are requested only where needed."""
    term = criterion(disagreement="position", disagreement_on="encoder", hsic_weight=1e-7)
    expected = {"encoder": ("weights", "outputs"), "cross": ("outputs",), "decoder": ("outputs",)}
    asked = term.diversity.wanted_of(build_ours().heads)
    assert {c: sorted(names) for c, names in asked.items()} == {
        c: sorted(names) for c, names in expected.items()
    }
    term = criterion(disagreement="position", disagreement_on="encoder")
    assert term.diversity.wanted_of(build_ours().heads) == {"encoder": ("weights",)}
    model, seen = build_ours(), {}
    forward = model.forward

    def record(**net_input):
        output = forward(**net_input)
        seen.update(output[1]["head_states"])
        return output

    model.forward = record
    term(model, toy_batch())
    assert list(seen) == ["encoder"] and seen["encoder"][0].weights is not None


@pytest.mark.parametrize("none", [{"encoder_layers": 0}, {"encoder_layerdrop": 0.999}])
def test_a_component_without_layers_adds_nothing(none):
    model, batch = build_ours(**none).train(), toy_batch()
    both, rest = (
        criterion(disagreement="output", disagreement_on=on)(model, batch)[2]
        for on in (None, "cross,decoder")
    )
    assert both["term/disagreement_output"] == rest["term/disagreement_output"] != 0
    assert both.get("term/disagreement_output_encoder", 0) == 0


@pytest.mark.parametrize("options", [{}, {"disagreement": "output"}])
def test_an_adaptive_softmax_needs_the_adaptive_loss(options):
    model = build_lm(**ADAPTIVE)
    with pytest.raises(ValueError, match="--adaptive-softmax-cutoff: needs --criterion adaptive"):
        criterion("cross_entropy", **options).check_model(model)
    criterion("adaptive_loss", **options).check_model(model)
    with pytest.raises(ValueError, match="adaptive_loss_with_diversity: needs --adaptive-softmax"):
        criterion("adaptive_loss", **options).check_model(build_lm())


@pytest.mark.parametrize("option", ["disagreement", "hsic_weight", "orthogonality_weight"])
def test_a_model_with_one_head_is_refused(option):
    """A term refuses one head in its components; without terms, one head is allowed."""
    value = "output" if option == "disagreement" else "1.0"
    one = build_ours(decoder_attention_heads=1)
    message = f"--{option.replace('_', '-')}: heads are .* cross .* --decoder-attention-heads 2 or"
    with pytest.raises(ValueError, match=message):
        criterion(**{option: value}).check_model(one)
    criterion().check_model(one)
    on = option.removesuffix("_weight") + "_on"
    criterion(**{option: value, on: "encoder"}).check_model(one)
    with pytest.raises(ValueError, match="the model's decoder attention has one"):
        lm = build_lm(decoder_attention_heads=1)
        criterion("cross_entropy", **{option: value}).check_model(lm)


def test_weights_may_be_numbers_or_text():
    written = {"disagreement": "output", "disagreement_weight": 0.5, "hsic_weight": 1e-7}
    config = merge_with_parent(DiversityConfig(), OmegaConf.create(written))
    assert [t.weight for t in DiversityTerms.from_config(config).terms] == [0.5, 1e-7]
    off = {
        "hsic_weight": 0,
        "orthogonality_weight": 0.0,
        "disagreement_weight": 1,
    }  # the options' default values
    config = merge_with_parent(DiversityConfig(), OmegaConf.create(off))
    assert not DiversityTerms.from_config(config).terms, "default values are accepted without terms"
    given = {**OUTPUT, "disagreement_weight": "0"}
    (term,) = DiversityTerms.from_config(DiversityConfig(**given)).terms
    assert term.weight == 0, "a term of weight 0 is kept, to be logged"


OUTPUT = {"disagreement": "output"}
HSIC, ORTHOGONALITY = {"hsic_weight": 1e-7}, {"orthogonality_weight": 1.0}
