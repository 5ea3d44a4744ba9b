"""Models as Python objects: pickled, copied, and quantised, as far as fairseq's own can be."""

import copy
import pickle

import pytest
import torch

from tests.models.test_language_model import TOKENS
from tests.models.test_language_model import build as build_lm
from tests.toy import build_ours, log_probs, toy_batch
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
OTHERS = {
    "language-model": (build_lm, {"src_tokens": TOKENS}),
    "classifier": (build_classifier, sentences()["net_input"]),
}


def pickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("options", VARIANTS.values(), ids=list(VARIANTS))
def test_a_model_can_be_pickled_whole(options):
    model, batch = build_ours(**options).eval(), toy_batch()
    other = pickled(model)
    assert type(other) is type(model)
    torch.testing.assert_close(log_probs(other, batch), log_probs(model, batch), rtol=0, atol=0)


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy])
@pytest.mark.parametrize(("build", "batch"), OTHERS.values(), ids=list(OTHERS))
def test_the_other_kinds_can_be_pickled_and_copied(build, batch, copied):
    model = build().eval()
    torch.testing.assert_close(copied(model)(**batch)[0], model(**batch)[0], rtol=0, atol=0)
