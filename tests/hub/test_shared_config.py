"""Models that share a config object, and changes of a config while terms act."""

import copy
import pickle

import pytest
import torch

pytest.importorskip("transformers")

from diverse_mha.common.errors import UserError  # noqa: E402
from diverse_mha.hub import HeadTerms  # noqa: E402
from tests.hub.models import BUILDERS, batch, build  # noqa: E402
from tests.hub.test_terms import ALL, TOLERANCE, implementations, step  # noqa: E402

BASES = pytest.mark.parametrize("base", ["sdpa", "eager"])
NAMES = pytest.mark.parametrize("name", BUILDERS)


def pair(name, base="sdpa"):
    """Return two models of one config object, in training mode."""
    one = build(name)
    one.set_attn_implementation(base)
    torch.manual_seed(7)
    other = type(one)(one.config).double().train()
    assert other.config is one.config
    return one, other


def drops_heads(model, inputs):
    """Return True if two training passes differ, which only Drophead can cause here."""
    torch.manual_seed(1)
    first = model(**inputs).logits
    torch.manual_seed(2)
    return not model(**inputs).logits.equal(first)


@BASES
@NAMES
@pytest.mark.parametrize("first", [0, 1])
def test_closing_the_terms_of_one_model_keeps_those_of_the_other(name, base, first):
    models, inputs = pair(name, base), batch(name)
    terms = [HeadTerms(model, drophead=0.5, hsic_weight=1.0) for model in models]
    terms[first].close()
    closed, kept = models[first], models[1 - first]
    assert not drops_heads(closed, inputs) and drops_heads(kept, inputs)
    assert step(terms[1 - first], kept, inputs)[1].values["hsic"] > 0
    terms[1 - first].close()
    assert not drops_heads(kept, inputs) and set(implementations(kept)) == {base}


@NAMES
def test_a_model_without_terms_is_untouched_by_those_of_another(name):
    """A teacher without terms still returns attention weights, computed as before."""
    student, teacher = pair(name, "eager")
    inputs = batch(name)
    before = teacher(**inputs, output_attentions=True)
    with HeadTerms(student, **ALL) as terms, terms.collect(inputs) as heads:
        found = teacher(**inputs, output_attentions=True)
        student(**inputs)
        again = teacher(**inputs, output_attentions=True)
    for output in (found, again):
        assert output.logits.equal(before.logits)
        for key in before.keys() & {"attentions", "encoder_attentions", "cross_attentions"}:
            assert len(output[key]) == len(before[key]) == 2
            assert all(map(torch.equal, output[key], before[key]))
    alone = build(name)
    alone.set_attn_implementation("eager")
    with HeadTerms(alone, **ALL) as terms:
        assert step(terms, alone, inputs)[1].values == heads.values


@NAMES
def test_a_new_implementation_is_taken_while_terms_act(name):
    """The attention function of a model may change inside the block, and stays afterwards."""
    inputs, values = batch(name), {}
    for base in ("sdpa", "eager"):
        model = build(name)
        with HeadTerms(model, drophead=0.5, hsic_weight=1.0) as terms:
            model.set_attn_implementation(base)
            torch.manual_seed(3)
            values[base] = step(terms, model, inputs)
            assert drops_heads(model, inputs)
            output = model(**inputs, output_attentions=True)
            weights = output.get("attentions") or output.get("encoder_attentions")
            seen = [x for x in weights or () if x is not None]  # transformers 5.0 returns None
            assert bool(seen) == (base == "eager")
        assert set(implementations(model)) == {base}
    tolerance = {"rtol": TOLERANCE[name], "atol": TOLERANCE[name]}
    torch.testing.assert_close(values["eager"][0], values["sdpa"][0], **tolerance)
    torch.testing.assert_close(values["eager"][2], values["sdpa"][2], **tolerance)


def test_an_unsupported_implementation_is_refused_while_terms_act():
    model = build("bert")
    with HeadTerms(model, drophead=0.5):
        model.config._attn_implementation = "flash_attention_2"
        with pytest.raises(UserError, match="^Bert.*: attn_implementation 'flash_attention_2'"):
            model(**batch("bert"))


def test_changes_of_a_config_reach_the_attention():
    model = build("llama")
    with HeadTerms(model, drophead=0.5):
        attention = model.model.layers[0].self_attn
        model.config.pretraining_tp = 7
        assert attention.config.pretraining_tp == 7 and attention.config.hidden_size == 16
        attention.config.pretraining_tp = 8
        assert model.config.pretraining_tp == 8
        assert not hasattr(attention.config, "no_such_option")
    assert attention.config is model.config and model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_has_the_attention_of_a_model_without_terms(duplicate):
    model = build("marian")
    with HeadTerms(model, drophead=0.5):
        other = duplicate(model)
    assert set(implementations(other)) == {"sdpa"}
    attention = other.model.encoder.layers[0].self_attn
    assert attention.config is other.model.encoder.config


def test_a_replica_in_training_is_refused():
    """nn.DataParallel copies modules flat; their heads would be neither dropped nor recorded."""
    model, inputs = build("bert"), batch("bert")
    attention = model.bert.encoder.layer[0].attention
    with HeadTerms(model, drophead=0.5):
        attention.self = attention.self._replicate_for_data_parallel()
        with pytest.raises(UserError, match="nn.DataParallel"):
            model(**inputs)
        model.eval()(**inputs)


def test_closed_terms_collect_nothing():
    model = build("bert")
    terms = HeadTerms(model, hsic_weight=1.0)
    terms.close()
    with pytest.raises(UserError, match="^collect: the terms are closed"), terms.collect({}):
        pass
