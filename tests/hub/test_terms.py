"""Terms on models of the transformers library equal those computed with eager attention."""

import copy
import re
import subprocess
import sys

import pytest
import torch

pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from diverse_mha.common.errors import UserError  # noqa: E402
from diverse_mha.hub import HeadTerms  # noqa: E402
from tests.hub import reference  # noqa: E402
from tests.hub.models import BUILDERS, COMPONENTS, batch, build  # noqa: E402

ALL = {
    "hsic_weight": 0.2,
    "cka_weight": 0.3,
    "orthogonality_weight": 0.4,
    "orthogonality_normalization": "mean-loss",
    "disagreement": "output,subspace,position",
    "disagreement_weight": 0.5,
}
WEIGHTS = {"hsic": 0.2, "cka": 0.3, "orthogonality": 0.4, "orthogonality_cosine": 0.4}
WEIGHTS |= {f"disagreement_{kind}": -0.5 for kind in ("output", "subspace", "position")}
# Llama's eager attention computes the softmax in float32.
TOLERANCE = {"marian": 1e-9, "bert": 1e-9, "llama": 2e-6}


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def step(terms, model, inputs):
    """Backpropagate the loss with terms; return the model's own loss, the terms and gradients."""
    model.zero_grad()
    with terms.collect(inputs) as heads:
        loss = model(**inputs).loss
    (loss + heads.loss()).backward()
    return loss.detach(), heads, gradients(model)


@pytest.mark.parametrize("base", ["sdpa", "eager"])
@pytest.mark.parametrize("name", BUILDERS)
def test_values_and_gradients_equal_those_of_eager_attention(name, base):
    model, inputs = build(name), batch(name)
    model.set_attn_implementation(base)
    expected, output, other = reference.measure(name, model, inputs)
    loss = output.loss + sum(WEIGHTS[term] * value for term, value in expected.items())
    loss.backward()
    with HeadTerms(model, **ALL) as terms:
        assert terms.components == COMPONENTS[name]
        token_loss, heads, found = step(terms, model, inputs)
    tolerance = {"rtol": TOLERANCE[name], "atol": TOLERANCE[name]}
    torch.testing.assert_close(token_loss, output.loss.detach(), **tolerance)
    parts = COMPONENTS[name] if len(COMPONENTS[name]) > 1 else ()
    assert heads.values.keys() == {
        *expected, *(f"{term}_{component}" for term in expected for component in parts)
    }  # fmt: skip
    for term, value in expected.items():
        assert heads.values[term] == pytest.approx(float(value.detach()), rel=TOLERANCE[name])
    torch.testing.assert_close(found, gradients(other), **tolerance)


@pytest.mark.parametrize("name", BUILDERS)
def test_orthogonality_is_added_once_to_the_summed_loss_of_a_batch(name):
    """The default adds the sum over layers once per batch, whatever the number of labels."""
    model, inputs = build(name), batch(name)
    expected, *_ = reference.measure(name, model, inputs)
    with HeadTerms(model, orthogonality_weight=0.4) as terms:
        _, heads, _ = step(terms, model, inputs)
    total = 2 * 0.4 * (expected["orthogonality"] + expected["orthogonality_cosine"])
    labels = int((inputs["labels"] != -100).sum())
    assert float(heads.loss()) == pytest.approx(float(total) / labels, rel=TOLERANCE[name])


@pytest.mark.parametrize("component", COMPONENTS["marian"])
def test_a_term_acts_on_its_components_only(component):
    model, inputs = build("marian"), batch("marian")
    expected, *_ = reference.measure("marian", model, inputs, [component])
    options = {"disagreement": "position", "disagreement_on": component, "hsic_weight": 1.0}
    with HeadTerms(model, hsic_on=component, **options) as terms:
        _, heads, _ = step(terms, model, inputs)
    options |= {"disagreement_on": ",".join(COMPONENTS["marian"])}
    with HeadTerms(model, **options) as terms:
        _, every, _ = step(terms, model, inputs)
    for term in ("hsic", "disagreement_position"):
        value = pytest.approx(float(expected[term].detach()), rel=1e-9)
        assert heads.values[term] == value and every.values[f"{term}_{component}"] == value
        assert f"{term}_{component}" not in heads.values


@pytest.mark.parametrize("name", BUILDERS)
def test_gradient_checkpointing_changes_no_gradient(name):
    model, inputs = build(name, dropout=0.3), batch(name)
    with HeadTerms(model, drophead=0.3, **ALL) as terms:
        torch.manual_seed(3)
        *_, heads, expected = step(terms, model, inputs)
        model.gradient_checkpointing_enable({"use_reentrant": False})
        torch.manual_seed(3)
        *_, again, found = step(terms, model, inputs)
    assert again.values == pytest.approx(heads.values, rel=1e-12)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_reentrant_checkpointing_is_refused():
    """Reentrant checkpointing runs the forward pass without gradients, also those of terms."""
    model, inputs = build("llama"), batch("llama")
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.enable_input_require_grads()
    with (
        HeadTerms(model, hsic_weight=1.0) as terms,
        pytest.raises(UserError, match="^hsic_weight: decoder .* use_reentrant=False"),
        terms.collect(inputs),
    ):
        model(**inputs)


@pytest.mark.parametrize("name", BUILDERS)
def test_autocast_gives_terms_near_those_of_float32(name):
    model, inputs = build(name).float(), batch(name)
    with HeadTerms(model, **ALL) as terms:
        _, heads, _ = step(terms, model, inputs)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _, rough, found = step(terms, model, inputs)
    assert rough.values == pytest.approx(heads.values, rel=0.05, abs=0.01)
    assert all(grad.isfinite().all() and grad.dtype == torch.float32 for grad in found.values())


@pytest.mark.parametrize("name", BUILDERS)
def test_logits_and_gradients_are_unchanged_with_weight_0(name):
    model, inputs = build(name), batch(name)
    plain = model(**inputs)
    plain.loss.backward()
    expected = gradients(model)
    for options in ({}, {"disagreement": "output", "disagreement_weight": 0}, {"hsic_weight": 0}):
        with HeadTerms(model, **options) as terms:
            model.zero_grad()
            with terms.collect(inputs) as heads:
                output = model(**inputs)
            (output.loss + heads.loss()).backward()
            assert bool(heads.values) == ("disagreement" in options)
        assert output.logits.equal(plain.logits)
        torch.testing.assert_close(gradients(model), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", BUILDERS)
def test_padding_changes_no_term(name):
    model, inputs = build(name), batch(name)
    with HeadTerms(model, **ALL) as terms:
        _, heads, _ = step(terms, model, inputs)
        longer = {
            key: torch.nn.functional.pad(x, (0, 3), value={"labels": -100}.get(key, 0))
            for key, x in inputs.items()
        }
        longer["input_ids"] = longer["input_ids"].masked_fill(longer["attention_mask"] == 0, 17)
        _, other, _ = step(terms, model, longer)
    assert other.values == pytest.approx(heads.values, rel=TOLERANCE[name])
    assert heads.sample_size == other.sample_size == (inputs["labels"] != -100).sum()


def test_left_and_right_padding_give_the_same_terms():
    model, inputs = build("llama"), batch("llama")
    moved = {key: x.roll(2, dims=1) for key, x in inputs.items()}
    keep = [1]  # only the padded sentence changes its positions
    with HeadTerms(model, disagreement="subspace,output", orthogonality_weight=1.0) as terms:
        _, right, _ = step(terms, model, {key: x[keep] for key, x in inputs.items()})
        places = (moved["attention_mask"][keep].cumsum(1) - 1).clamp_min(0)
        left = {key: x[keep] for key, x in moved.items()} | {"position_ids": places}
        _, found, _ = step(terms, model, left)
    assert found.values == pytest.approx(right.values, rel=1e-6)


def test_drophead_zeroes_heads_and_scales_the_others():
    model, inputs = build("marian"), batch("marian")
    seen = []
    projection = model.model.encoder.layers[0].self_attn.out_proj
    projection.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(**inputs)
    with HeadTerms(model, drophead=0.5):
        for seed in range(20):
            torch.manual_seed(seed)
            model(**inputs)
        model.eval()
        model(**inputs)
    plain, *dropped, evaluated = (x.unflatten(-1, (4, 4)) for x in seen)
    assert evaluated.equal(plain)
    ratio = torch.stack(dropped) / plain
    assert (
        ratio.amax(dim=(2, 4)).sub(ratio.amin(dim=(2, 4))).abs().max() < 1e-9
    )  # heads are dropped whole
    factors = ratio[:, :, 0, :, 0].round(decimals=6)
    assert set(factors.flatten().tolist()) == {0.0, 2.0} and 0.3 < (factors == 0).double().mean()


@pytest.mark.parametrize("name", ["marian", "llama"])
def test_generation_is_unchanged(name):
    model, inputs = build(name).eval(), batch(name)
    prompt = {key: x[:1] for key, x in inputs.items() if key != "labels"}
    for search in ({"num_beams": 1}, {"num_beams": 3}):
        plain = model.generate(**prompt, max_new_tokens=8, do_sample=False, **search)
        with HeadTerms(model, drophead=0.5, **ALL) as terms:
            step(terms, model.train(), inputs)
            found = model.eval().generate(**prompt, max_new_tokens=8, do_sample=False, **search)
        assert found.equal(plain)


def implementations(model):
    return [m.config._attn_implementation for m in model.modules() if hasattr(m, "config")]


@pytest.mark.parametrize("base", ["sdpa", "eager"])
@pytest.mark.parametrize("name", BUILDERS)
def test_the_attention_of_the_model_is_restored(name, base):
    model = build(name)
    model.set_attn_implementation(base)
    before = implementations(model)
    with pytest.raises(KeyError), HeadTerms(model, hsic_weight=1.0):
        assert "diverse_mha" in implementations(model)
        raise KeyError
    terms = HeadTerms(model, drophead=0.1)
    terms.close()
    terms.close()
    assert implementations(model) == before and set(before) == {base}
    assert not terms.acts_on(model)


def test_two_models_have_independent_terms():
    one, other = build("bert"), build("bert", seed=5)
    inputs = batch("bert")
    with HeadTerms(one, hsic_weight=1.0) as first, HeadTerms(other, cka_weight=1.0) as second:
        with first.collect(inputs) as heads, second.collect(inputs) as more:
            one(**inputs), other(**inputs)
        assert (*heads.values, *more.values) == ("hsic", "cka")
        with pytest.raises(UserError, match="has terms already; close"):
            HeadTerms(one, hsic_weight=1.0)
        assert first.acts_on(one) and not first.acts_on(other)


def test_a_copy_of_a_model_has_no_terms_and_can_get_other_terms():
    model, inputs = build("marian"), batch("marian")
    plain = model(**inputs).logits
    with HeadTerms(model, drophead=0.5):
        other = copy.deepcopy(model)
        assert other(**inputs).logits.equal(plain)
        with HeadTerms(other, hsic_weight=1.0) as terms:
            assert step(terms, other, inputs)[1].values["hsic"] > 0
    assert set(implementations(other)) == {"sdpa"}


def test_a_model_inside_another_module_gets_terms():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleDict({"model": build("bert")})

        def forward(self, **inputs):
            return self.inner["model"](**inputs)

    model, inputs = Wrapped(), batch("bert")
    with HeadTerms(model, hsic_weight=1.0) as terms:
        assert step(terms, model, inputs)[1].values["hsic"] > 0
    assert set(implementations(model)) == {"sdpa"}


def test_layers_that_share_an_attention_module_all_count():
    from transformers import AlbertConfig, AlbertForMaskedLM

    sizes = {"vocab_size": 30, "hidden_size": 16, "embedding_size": 8, "intermediate_size": 16}
    model = AlbertForMaskedLM(AlbertConfig(num_attention_heads=4, num_hidden_layers=3, **sizes))
    with HeadTerms(model.train(), cka_weight=1.0) as terms, terms.collect(batch("bert")) as heads:
        model(**batch("bert"))
    assert len(heads._states["encoder"]) == 3 and 0 < heads.values["cka"] <= 1


def test_a_schedule_decides_when_terms_act():
    model, inputs = build("bert"), batch("bert")
    with HeadTerms(model, hsic_weight=1.0, diversity_start=2, diversity_warmup_updates=2) as terms:
        losses = []
        for update in range(5):
            with terms.collect(inputs, update) as heads:
                model(**inputs)
            losses.append(float(torch.as_tensor(heads.loss()).detach()))
        with (
            pytest.raises(UserError, match="needs the number of updates; give step"),
            terms.collect(inputs),
        ):
            pass
    assert losses[:2] == [0, 0]
    assert losses[2:] == pytest.approx([losses[4] / 2, losses[4], losses[4]]) and losses[4] > 0


def test_two_passes_over_different_sentences_are_refused():
    model = build("bert")
    with HeadTerms(model, hsic_weight=1.0) as terms, terms.collect({}):
        model(**batch("bert"))
        with pytest.raises(UserError, match="^hsic_weight: .* call the model once per batch"):
            model(**batch("bert", sentences=2))


def test_a_batch_without_attention_is_refused():
    model, inputs = build("bert"), batch("bert")
    with HeadTerms(model, hsic_weight=1.0) as terms, terms.collect(inputs) as heads:
        copy.deepcopy(model)(**inputs)
    with pytest.raises(UserError, match="no attention of the model ran"):
        heads.loss()


WRONG = [
    ({"hsic": 1.0}, "HeadTerms: no option hsic; did you mean hsic_"),
    ({"hsic_weight": -1}, "hsic_weight=-1: must be 0 or a positive number"),
    ({"hsic_weight": "much"}, "hsic_weight='much': give a number"),
    ({"hsic_on": "encoder"}, "hsic_on='encoder' has no effect with hsic_weight=0"),
    ({"hsic_weight": 1, "hsic_on": "cross"}, "hsic_on='cross': the model has no 'cross' attention"),
    ({"hsic_weight": 1, "hsic_on": ["encoder"]}, r"hsic_on=\['encoder'\]: give a name"),
    ({"disagreement": "values"}, "disagreement='values': unknown 'values'; choose from"),
    ({"disagreement": True}, "disagreement=True: give a name"),
    ({"drophead": 1.0}, "drophead=1.0: must be at least 0 and below 1"),
    ({"drophead": "0.1"}, "drophead='0.1': give a number"),
    ({"drophead_mask": "batch"}, "drophead_mask='batch' has no effect with drophead=0"),
    ({"diversity_start": 5}, "diversity_start=5 has no effect without a term"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_a_wrong_option_is_reported_in_one_line(options, message):
    model = build("bert")
    with pytest.raises(UserError, match=f"^{message}") as error:
        HeadTerms(model, **options)
    assert "--" not in str(error.value) and len(str(error.value).split()) <= 25
    assert set(implementations(model)) == {"sdpa"}


def test_a_single_head_is_refused():
    with pytest.raises(UserError, match="^cka_weight: .* give a model with more, or other"):
        HeadTerms(build("bert", heads=1), cka_weight=1.0)


def test_models_with_custom_attention_code_are_refused():
    from transformers import FSMTConfig, FSMTForConditionalGeneration

    config = FSMTConfig(
        src_vocab_size=9, tgt_vocab_size=9, d_model=8, langs=["de", "en"], encoder_layers=1,
        decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
    )  # fmt: skip
    for model in (FSMTForConditionalGeneration(config), nn.Linear(2, 2)):
        name = type(model).__name__
        with pytest.raises(UserError, match=f"^HeadTerms: {name} has attention code of its own"):
            HeadTerms(model, hsic_weight=1.0)


def test_another_attention_function_is_refused():
    model = build("bert")
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(UserError, match="^BertForMaskedLM: attn_implementation 'flex_attention'"):
        HeadTerms(model, hsic_weight=1.0)


def test_head_terms_need_neither_fairseq_nor_accelerate():
    code = "import sys; sys.modules['fairseq'] = sys.modules['accelerate'] = None\n"
    code += "import diverse_mha.hub; print(diverse_mha.hub.HeadTerms.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert re.search(r"^HeadTerms$", done.stdout, re.M), done.stderr


def test_missing_transformers_is_reported_in_one_line():
    code = "import sys; sys.modules['transformers'] = None\nimport diverse_mha.hub"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    message = "UserError: diverse_mha.hub: needs transformers 5; pip install"
    assert message in done.stderr.splitlines()[-1]
