"""Terms are computed in float32 for models in half precision and float32."""

import pytest
import torch

from tests.properties import families

TERMS = {
    "disagreement": "subspace,position,output",
    "hsic_weight": 0.1,
    "orthogonality_weight": 0.1,
}


@pytest.mark.parametrize("family", ["translation", "lm", "classification"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("method", ["linear", "em-routing", "mlp"])
def test_terms_are_float32_and_near_those_of_a_float32_model(family, dtype, method):
    options = {"logits": "mlp"} if method == "mlp" else {}
    if method == "em-routing":
        side = "decoder" if family == "lm" else "encoder"
        options = {"aggregation": method, f"aggregation_{side}_layers": "all"}
    sample, model = families.batch(family, [5, 3, 4]), families.build(family, options)
    expected = families.criterion(family, TERMS)(model.float(), sample)[2]
    loss, _, log = families.criterion(family, TERMS)(model.to(dtype), sample)
    loss.backward()
    names = [name for name in log if name.startswith("term/")]
    sums = [name for name in names if not name.endswith(("_encoder", "_cross", "_decoder"))]
    assert len(sums) == 7
    for name in names:
        assert log[name].dtype == torch.float32
        # bfloat16 activations have two significant digits.
        torch.testing.assert_close(log[name], expected[name].float(), rtol=0.05, atol=1e-3)
    assert loss.dtype == torch.float32
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()
