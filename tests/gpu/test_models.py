"""Training steps (every kind of model, some methods and terms) and beam search equal the CPU's."""

import pytest
import torch

from tests import toy
from tests.gpu.device import DTYPES, MARKS, distance, name, to_device
from tests.properties import families

pytestmark = MARKS
SIDES = {
    "translation": ("encoder", "decoder", "cross"),
    "lm": ("decoder",),
    "classification": ("encoder",),
}
METHODS = {
    "linear": {},
    "em": {"aggregation": "em-routing"},
    "simple": {"aggregation": "simple-routing"},
    "mlp": {"logits": "mlp"},
    "residual": {"logits": "residual"},
}
TERMS = {
    "disagreement": "subspace,position,output",
    "hsic_weight": 0.1,
    "orthogonality_weight": 0.1,
}
# Equal lengths, different lengths, and extra columns of padding.
BATCHES = [([6, 6, 6], 0), ([5, 3, 4, 1], 0), ([5, 3, 4], 3), ([9], 0)]
# A model has some tens of successive operations. Each operation rounds.
STEP_TOLERANCE = {torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 2e-1}


def model_of(family, method):
    options = dict(METHODS[method])
    if "aggregation" in options:
        options |= {f"aggregation_{side}_layers": "all" for side in SIDES[family]}
    return families.build(family, options)


def step(family, model, sample, learning_rate=0.1):
    """Return loss and terms, gradients, and parameters after a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    loss, size, log = families.criterion(family, TERMS)(model.train(), sample)
    (loss / size).backward()
    values = [loss / size, *(log[key] / size for key in sorted(log) if key.startswith("term/"))]
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    optimizer.step()
    return [torch.as_tensor(value) for value in values], gradients, model.state_dict()


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", SIDES)
def test_training_steps_on_gpu_and_cpu_are_equal(family, method, dtype, record_property):
    apart = {"values": 0.0, "gradients": 0.0, "parameters": 0.0}
    for sizes, padding in BATCHES:
        sample = families.batch(family, sizes, padding)
        model = model_of(family, method).to(dtype)
        parameters = {key: value.double() for key, value in model.state_dict().items()}
        reference = model_of(family, method)
        reference.load_state_dict(parameters)
        expected = step(family, reference, sample)
        found = step(family, to_device(model), to_device(sample))
        for key, a, b in zip(apart, found, expected, strict=True):
            apart[key] = max(apart[key], distance(a, b))
    for key, value in apart.items():
        record_property(key, value)
    assert max(apart.values()) < STEP_TOLERANCE[dtype]


@pytest.mark.parametrize("method", METHODS)
def test_hypotheses_and_scores_on_gpu_and_cpu_are_equal(method, record_property):
    model = model_of("translation", method).float().eval()
    sample = toy.toy_batch([9, 5, 7, 2, 6], [3, 3, 3, 3, 3])
    expected = toy.beam_search(model, sample)
    found = toy.beam_search(to_device(model), to_device(sample))
    apart = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        assert [one["tokens"].tolist() for one in ours] == [
            one["tokens"].tolist() for one in theirs
        ]
        scores = [[float(one["score"]) for one in side] for side in (ours, theirs)]
        apart = max(apart, *(abs(a - b) for a, b in zip(*scores, strict=True)))
    record_property("scores", apart)
    assert apart < 1e-5  # scores are in nats for each token
