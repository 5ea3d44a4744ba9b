"""Invariances of models of all kinds with random options."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import toy
from tests.properties import PROPERTY, families

pytestmark = pytest.mark.integration

FAMILIES = ("translation", "lm", "classification")
AUTOREGRESSIVE = ("translation", "lm")


@pytest.mark.parametrize("family", FAMILIES)
@PROPERTY
@given(data=st.data())
def test_padding_changes_neither_terms_nor_loss_nor_gradients(family, data):
    model = families.build(family, data.draw(families.options(family, fewest_heads=2)))
    chosen, sizes = data.draw(families.terms()), data.draw(families.lengths)
    steps = [
        families.step(family, model, families.batch(family, sizes, extra), chosen)
        for extra in (0, data.draw(st.integers(1, 3)))
    ]
    families.assert_same_step(*steps)


@pytest.mark.parametrize("family", FAMILIES)
@PROPERTY
@given(data=st.data())
def test_the_order_of_a_batch_changes_neither_terms_nor_loss_nor_gradients(family, data):
    model = families.build(family, data.draw(families.options(family, fewest_heads=2)))
    chosen, sizes = data.draw(families.terms()), data.draw(families.lengths)
    sample = families.batch(family, sizes)
    order = data.draw(st.permutations(range(len(sizes))))
    first = families.step(family, model, sample, chosen)
    second = families.step(family, model, families.reordered(sample, order), chosen)
    families.assert_same_step(first, second)


@pytest.mark.parametrize("family", FAMILIES)
@PROPERTY
@given(data=st.data())
def test_the_order_of_heads_has_no_effect(family, data):
    """This holds for linear aggregation, with plain or residual logits.

    In every module, head n gets the parameters of head order[n].
    """
    options = data.draw(families.options(family, fewest_heads=2))
    options = {k: v for k, v in options.items() if not k.startswith(("aggregation", "routing"))}
    options.pop("cascade_depth", None)
    options["logits"] = data.draw(st.sampled_from(["none", "residual"]))
    heads = next(v for k, v in options.items() if k.endswith("attention_heads"))
    order = data.draw(st.permutations(range(heads)))
    chosen, sample = data.draw(families.terms()), families.batch(family, [5, 3, 4])
    first = families.build(family, options)
    second = families.build(family, options)
    rows = torch.arange(families.WIDTH).view(heads, -1)[torch.tensor(order)].flatten()
    moved = 0
    with torch.no_grad():
        for name, parameter in second.named_parameters():
            kind = name.split(".")[-2]
            if kind in ("q_proj", "k_proj", "v_proj"):
                parameter.copy_(parameter[rows])
                moved += 1
            elif kind == "out_proj" and name.endswith("weight"):
                parameter.copy_(parameter[:, rows])
                moved += 1
    assert moved >= 2 * 7
    loss, values, gradients = families.step(family, first, sample, chosen)
    loss2, values2, gradients2 = families.step(family, second, sample, chosen)
    for name in gradients:
        kind = name.split(".")[-2]
        if kind in ("q_proj", "k_proj", "v_proj"):
            gradients[name] = gradients[name][rows]
        elif kind == "out_proj" and name.endswith("weight"):
            gradients[name] = gradients[name][:, rows]
    families.assert_same_step((loss, values, gradients), (loss2, values2, gradients2))


@pytest.mark.parametrize("family", AUTOREGRESSIVE)
@PROPERTY
@given(data=st.data())
def test_incremental_decoding_gives_the_scores_of_a_full_pass(family, data):
    model = families.build(family, data.draw(families.options(family)))
    sample = families.batch(family, data.draw(families.lengths))
    with torch.no_grad():
        full = toy.log_probs(model, sample)
        if family == "translation":
            steps = toy.step_by_step(model, sample)
        else:
            tokens, state = sample["net_input"]["src_tokens"], {}
            outputs = [
                model.decoder(tokens[:, :n], incremental_state=state)
                for n in range(1, tokens.size(1) + 1)
            ]
            steps = torch.cat([model.get_normalized_probs(o, log_probs=True) for o in outputs], 1)
    real = sample["target"].ne(1)
    # fairseq computes the softmax in float32.
    torch.testing.assert_close(steps[real], full[real], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@PROPERTY
@given(data=st.data())
def test_losses_and_gradients_are_finite(family, scale, data):
    """Models are in float32 with scaled embeddings, and may get a sentence of padding."""
    model = families.build(family, data.draw(families.options(family, fewest_heads=2))).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_tokens" in name:
                parameter.mul_(scale)
    model.train()
    sample = families.batch(family, data.draw(families.lengths))
    if data.draw(st.booleans()):
        sample["net_input"]["src_tokens"][0] = 1
    loss, values, gradients = families.step(family, model, sample, data.draw(families.terms()))
    assert all(torch.tensor([loss, *values.values()]).isfinite())
    broken = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
    assert not broken
