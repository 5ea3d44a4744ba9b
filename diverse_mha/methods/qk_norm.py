"""Queries and keys of length 1, with a learnt scale (Henry et al. 2020; Qwen3)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.head_tensors import wide_range
from diverse_mha.attention.registries import PROJECTIONS, ProjectionMap
from diverse_mha.common.options import Method, Place
from diverse_mha.common.ranges import COUNT

SMALLEST = 1e-6  # length below which a vector is not stretched to 1


class QKNorm(ProjectionMap):
    """Logits are cosines times a learnt scale per head.

    Choose it against logits that grow until attention is hard and training unstable. It has one
    parameter for each head.

    Henry et al. 2020 (arXiv 2010.04245), here with one scale per head::

        z_h = g_h (q_h / ||q_h||) . (k_h / ||k_h||)

    g starts at sqrt(D). Qwen3 starts with the same logits: it gives queries and keys an RMS norm
    with weights of 1, and keeps the factor 1/sqrt(D). Our attention divides logits by sqrt(D), so
    this module gives queries the length g_h sqrt(D).

    Args:
        num_heads: H.
        head_dim: D.

    Example:
        >>> import torch
        >>> from diverse_mha.attention import MultiheadAttention
        >>> attention = MultiheadAttention(32, 4, batch_first=True, projections=QKNorm(4, 8))
        >>> x = torch.randn(2, 5, 32)
        >>> small, large = attention(x, x, x)[1], attention(100 * x, 100 * x, x)[1]
        >>> torch.allclose(small, large, atol=1e-4)  # the size of queries and keys has no effect
        True
    """

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__()
        COUNT.check("num_heads", num_heads)
        COUNT.check("head_dim", head_dim)
        self.root: float = head_dim**0.5
        self.scale = nn.Parameter(Tensor(num_heads))  # g
        nn.init.constant_(self.scale, self.root)

    def queries(self, queries: Tensor) -> Tensor:
        """Return g_h sqrt(D) q / ||q||, (B, H, T, D)."""
        scale = (self.scale * self.root).to(queries.dtype)
        return _unit(queries) * scale[:, None, None]

    def keys_values(
        self, keys: Tensor, values: Tensor, first: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return k / ||k||, (B, H, S, D), and the values as they are."""
        return _unit(keys), values


def _unit(x: Tensor) -> Tensor:
    """Return x / ||x|| over the last dimension; float16 is computed in float32."""
    unit = F.normalize(wide_range(x), dim=-1, eps=SMALLEST)
    # Autocast itself rounds the operands of the products that follow.
    return unit if torch.is_autocast_enabled(x.device.type) else unit.to(x.dtype)


def _build(options, place: Place) -> QKNorm:
    return QKNorm(place.num_heads, place.embed_dim // place.num_heads)


PROJECTIONS.register(
    Method(
        "qk-norm",
        "qk-norm (queries and keys of length 1, times a learnt scale, Henry et al. 2020)",
        _build,
        head_axes={"scale": 0},
    )
)
