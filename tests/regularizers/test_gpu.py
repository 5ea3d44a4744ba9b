"""HSIC and SRIP give on the GPU what they give on the CPU, with a generator of its own."""

import pytest
import torch

from diverse_mha.regularizers import hsic, sample_positions, srip

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
TERMS = {
    "linear": lambda x, mask: hsic(x, mask),
    "rbf": lambda x, mask: hsic(x, mask, kernel="rbf"),
    "power": lambda x, mask: srip(x, mask),
    "exact": lambda x, mask: srip(x, mask, method="exact"),
}


@pytest.mark.parametrize("term", TERMS)
def test_equals_the_cpu(term):
    torch.manual_seed(0)
    x = torch.randn(4, 30, 8, 16, dtype=torch.float64).transpose(1, 2)
    mask = torch.arange(30)[None, :] >= torch.tensor([30, 12, 0, 1])[:, None]
    x = x.masked_fill(mask[:, None, :, None], float("nan"))
    results = []
    for device in ("cpu", "cuda"):
        y = x.to(device).requires_grad_()
        value = TERMS[term](y, mask.to(device))
        value.backward()
        results.append((value.detach().cpu(), y.grad.cpu()))
    torch.testing.assert_close(*results, rtol=1e-8, atol=1e-10)


def test_samples_come_from_the_generator_of_the_device():
    torch.manual_seed(0)
    cpu = torch.get_rng_state()
    first = sample_positions(None, (4, 30), 10, training=True, device="cuda")
    torch.cuda.manual_seed(0)
    again = sample_positions(None, (4, 30), 10, training=True, device="cuda")
    assert first.device.type == "cuda" and torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), cpu)
