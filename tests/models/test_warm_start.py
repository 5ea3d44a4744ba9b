"""Warm starts from checkpoints that lack some modules."""

import gc
import logging
import re
import weakref

import pytest
import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema

from diverse_mha.common.errors import UserError
from tests.models import test_language_model as lm
from tests.toy import build_ours, build_stock

# Name -> model, stock model, and names of the modules that the stock model lacks.
MODELS = {
    "routing": (
        lambda: build_ours("transformer_routing"),
        build_stock,
        "encoder.layers.0.self_attn.out_proj, encoder.layers.1.self_attn.out_proj",
    ),
    "coda": (
        lambda: build_ours("transformer_coda"),
        build_stock,
        "encoder.layers.1.self_attn.cascade, decoder.layers.1.self_attn.cascade, "
        "decoder.layers.1.encoder_attn.cascade",
    ),
    "gate": (
        lambda: build_ours(aggregation="headwise-gate", aggregation_encoder_layers="2"),
        build_stock,
        "encoder.layers.1.self_attn.out_proj",
    ),
    "lm-coda": (
        lambda: lm.build("transformer_lm_coda"),
        lm.build_stock,
        "decoder.layers.1.self_attn.cascade",
    ),
}


def load(model, state, warm=True):
    """Load a state as fairseq's trainer does."""
    with model.loading("start.pt", warm):
        try:
            model.load_state_dict({k: v.clone() for k, v in state.items()}, strict=True)
        except Exception:
            raise Exception("Cannot load model parameters") from None


def copy(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("name", MODELS)
def test_stock_parameters_are_loaded_and_new_ones_keep_initial_values(name, caplog):
    build, stock, parts = MODELS[name]
    model, start = build(), stock()
    for value in start.parameters():
        value.data.normal_()
    initial, given = copy(model), copy(start)
    with caplog.at_level(logging.INFO, "diverse_mha"):
        load(model, given)
    (line,) = caplog.messages
    assert line == f"warm start from start.pt: parts at their initial values: {parts}"
    new = r"\.cascade\." if "coda" in name else r"\.out_proj\.(hidden|votes|gate)"
    for key, value in model.state_dict().items():
        assert torch.equal(value, (initial if re.search(new, key) else given)[key]), key


@pytest.mark.parametrize("name", MODELS)
def test_a_complete_model_is_loaded_completely(name, caplog):
    model, start = MODELS[name][0](), MODELS[name][0]()
    for value in start.parameters():
        value.data.normal_()
    with caplog.at_level(logging.INFO, "diverse_mha"):
        load(model, start.state_dict())
    assert not caplog.messages
    for key, value in model.state_dict().items():
        assert torch.equal(value, start.state_dict()[key])


def test_routing_may_be_in_more_layers_than_in_the_checkpoint():
    start = build_ours("transformer_routing", 2, aggregation_encoder_layers="1")
    model = build_ours("transformer_routing")
    load(model, start.state_dict())
    first = "encoder.layers.0.self_attn.out_proj.votes.weight"
    assert torch.equal(model.state_dict()[first], start.state_dict()[first])


FC1 = "encoder.layers.1.fc1.weight"
CASCADE = "decoder.layers.1.self_attn.cascade.network"
REFUSED = {
    "missing": (lambda s: s.pop(FC1), rf"parameters 1 missing \({FC1}\); give the arch"),
    "shape": (
        lambda s: s.update({FC1: torch.zeros(3, 16)}),
        rf"1 of another shape \({FC1}\)",
    ),
    "unknown": (
        lambda s: s.update({f"more{n}": torch.zeros(1) for n in range(4)}),
        r"4 unknown \(more0\)",
    ),
    "half-a-part": (
        lambda s: s.update({f"{CASCADE}.{name}": value for name, value in network()[:1]}),
        rf"5 missing \({CASCADE}",
    ),
}


def network():
    model = build_ours("transformer_coda")
    return list(model.decoder.layers[1].self_attn.cascade.network.state_dict().items())


@pytest.mark.parametrize("case", REFUSED)
def test_parameters_that_do_not_fit_are_reported(case):
    change, message = REFUSED[case]
    state = copy(build_stock())
    change(state)
    with pytest.raises(UserError, match=f"start.pt: does not fit the model: .*{message}"):
        load(build_ours("transformer_coda"), state)


def test_missing_modules_are_accepted_only_in_a_warm_start():
    message = r"18 missing \(.*cascade.*\); give it with --finetune-from-model to start missing par"
    with pytest.raises(UserError, match=message):
        load(build_ours("transformer_coda"), copy(build_stock()), warm=False)
    other = {name: value for name, value in copy(build_stock()).items() if name != FC1}
    with pytest.raises(UserError, match="19 missing .*; give the architecture"):
        load(build_ours("transformer_coda"), other, warm=False)


def test_a_model_without_cascade_refuses_a_checkpoint_with_one():
    with pytest.raises(UserError, match="18 unknown .*cascade"):
        load(build_ours(), copy(build_ours("transformer_coda")))


def test_hooks_are_removed_and_other_errors_are_not_changed():
    model = build_ours("transformer_coda")
    with pytest.raises(KeyError, match="else"), model.loading("start.pt", True):
        raise KeyError("else")
    assert not model._load_state_dict_pre_hooks


def test_the_weights_of_the_checkpoint_are_freed():
    """The copy of the model for a moving average keeps the hook that has read them."""
    model = build_ours()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    weights = [weakref.ref(value) for value in state.values()]
    with model.loading("start.pt", False):
        model.load_state_dict(state)
        average = build_ema(model, EMAConfig(store_ema=True), torch.device("cpu"))
    del state
    gc.collect()  # torch may hold them in a cycle
    assert not any(weight() is not None for weight in weights)
    average.restore(model.state_dict())
