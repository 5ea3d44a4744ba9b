"""Models can be pickled and copied."""

import copy
import pickle
from functools import partial

import pytest
import torch

from tests.models.test_language_model import TOKENS
from tests.models.test_language_model import build as build_lm
from tests.toy import build_ours, toy_batch
from tests.toy_classification import build_classifier
from tests.toy_classification import toy_batch as sentences

VARIANTS = {
    "plain": {},
    "gate": {"aggregation": "headwise-gate", "aggregation_encoder_layers": "all"},
    "em-routing": {"aggregation": "em-routing", "aggregation_encoder_layers": "1"},
    "simple-routing": {"aggregation": "simple-routing", "aggregation_decoder_layers": "1"},
    "mlp": {"logits": "mlp", "attention_noise": 1.0},
    "residual": {"logits": "residual"},
    "talking-heads": {"logits": "talking-heads"},
    "drophead": {"drophead": 0.1},
}
MODELS = {
    **{name: (partial(build_ours, **options), toy_batch()) for name, options in VARIANTS.items()},
    "language-model": (build_lm, {"net_input": {"src_tokens": TOKENS}}),
    "classifier": (build_classifier, sentences()),
}


def pickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_can_be_pickled_and_copied(name, copied):
    build, batch = MODELS[name]
    model = build().eval()
    other = copied(model)
    assert type(other) is type(model)
    results = [one(**batch["net_input"])[0] for one in (model, other)]
    torch.testing.assert_close(*results, rtol=0, atol=0)
