"""Gates on the head outputs, computed from the layer's input (Qiu et al. 2025)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.core import check_head_count
from diverse_mha.attention.registries import AGGREGATION
from diverse_mha.common.options import Method, Place
from diverse_mha.common.ranges import COUNT


class HeadwiseGate(nn.Linear):
    """Scales head outputs by sigmoid gates, then projects them as plain attention does.

    Choose it to let the model switch heads off at single positions, at the cost of one linear
    layer.

    Qiu et al. 2025, section 2.2, head-specific gating of the attention's output (G1)::

        g = sigmoid(X W_g)         headwise (..., H), a number for each position and head;
                                   elementwise (..., C), a number for each element
        result = [g_1 O^1, ..., g_H O^H] W + b

    with O^h the output of head h, and X the input of the layer, after its layer norm in a pre-norm
    model. The projection keeps its parameter names, so a checkpoint without gates lacks only
    ``gate.weight``. Weights start as Xavier uniform; the paper does not say how they start.

    Args:
        embed_dim: C, the width of the head outputs, of X and of the result.
        num_heads: H, a divisor of C.
        elementwise: one gate per element instead of one per head.

    Example:
        >>> import torch
        >>> gate = HeadwiseGate(8, 2)
        >>> _ = gate.gate.weight.data.zero_()  # gates of sigmoid(0) = 1/2
        >>> heads, x = torch.randn(3, 8), torch.randn(3, 8)
        >>> plain = torch.nn.functional.linear(heads, gate.weight, gate.bias)
        >>> torch.allclose(gate(heads, x), plain / 2, atol=1e-6)
        True
    """

    sees_input = True

    def __init__(self, embed_dim: int, num_heads: int, *, elementwise: bool = False):
        COUNT.check("num_heads", num_heads)
        check_head_count(embed_dim, num_heads)
        super().__init__(embed_dim, embed_dim)
        gates = embed_dim if elementwise else num_heads
        self.gate = nn.Linear(embed_dim, gates, bias=False)
        for weight in (self.weight, self.gate.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.bias)

    # An aggregation that sees more takes more than a Linear does, whose other habits it keeps.
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, head_outputs: Tensor, layer_input: Tensor
    ) -> Tensor:
        """Gate and project head outputs (..., C); ``layer_input`` is X, (..., C)."""
        gates = torch.sigmoid(self.gate(layer_input)).unsqueeze(-1)  # (..., H, 1) or (..., C, 1)
        heads = head_outputs.unflatten(-1, (self.gate.out_features, -1))  # one part per gate
        return F.linear((heads * gates).flatten(-2), self.weight, self.bias)


def _build(options, place: Place) -> HeadwiseGate:
    return HeadwiseGate(place.embed_dim, place.num_heads)


def _build_elementwise(options, place: Place) -> HeadwiseGate:
    return HeadwiseGate(place.embed_dim, place.num_heads, elementwise=True)


AGGREGATION.register(
    Method(
        "headwise-gate",
        "headwise-gate (scale each head by a sigmoid of the layer's input, then project, Qiu et "
        "al. 2025)",
        _build,
        head_axes={"gate.weight": 0},
    )
)
AGGREGATION.register(
    Method(
        "elementwise-gate",
        "elementwise-gate (scale each element by a sigmoid of its own, Qiu et al. 2025)",
        _build_elementwise,
        head_axes={"gate.weight": 0},
    )
)
