"""CKA between the outputs of the heads as a loss term, minimised or held at a value.

The papers do not minimise CKA: Yun et al. 2021 only measure it (Eq. 3). They minimise HSIC, the
numerator of CKA, which also falls if all outputs shrink.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.attention.head_tensors import (
    check_head_tensor,
    compute_dtype,
    full_precision,
    position_weights,
)
from diverse_mha.common.options import option
from diverse_mha.common.ranges import UNIT
from diverse_mha.methods.disagreement.functions import centre
from diverse_mha.methods.term import TERMS, Term, components_option, total, weight_option


def cka(x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Mean over the pairs of heads i < j of linear CKA, differentiable.

    Choose it to make the outputs of heads less similar, whatever their scale. In our examples a
    weight of 0.1 lowers CKA within a hundred updates. To measure two single heads, use
    :func:`diverse_mha.measures.similarity.cka`.

    With the centred vectors of head i at the N real positions as the rows of X_i (Kornblith et al.
    2019; Yun et al. 2021, Eq. 3 and 4)::

        CKA(X_i, X_j) = ||X_i^T X_j||^2 / (||X_i^T X_i|| ||X_j^T X_j||)

    Args:
        x: (B, H, L, D), vectors of each head; any floating-point dtype and strides.
        padding_mask: (B, L) bool, True = padding, which is never read and gets zero gradient.

    Returns:
        Scalar, float32 (float64 for float64), without unit, in [0, 1]; lower = more diverse,
        0 = uncorrelated, 1 = equal up to rotation, scale and shift, where the gradient is 0. CKA
        with a head that does not vary is 0. The result is 0, with zero gradient, for one head or
        fewer than two positions.
        With few positions, CKA of independent heads is above 0, about 1 / (1 + N / D).

    Example:
        >>> import torch
        >>> head = torch.randn(1, 1, 50, 8)
        >>> round(cka(torch.cat([head, 3 * head], dim=1)).item(), 3)  # the same up to scale
        1.0
    """
    check_head_tensor("x", x, "(B, H, L, D)")
    num_heads, head_dim = x.size(1), x.size(3)
    weights = position_weights("x", x, padding_mask)  # (B, L), of sum 1
    # CKA does not depend on a head's scale, so no square or fourth power overflows or underflows.
    centred = centre(_scaled(x, padding_mask), padding_mask) * weights.sqrt()[:, None, :, None]
    if num_heads < 2 or x.numel() == 0:
        return centred.sum() * 0.0
    norms = torch.linalg.vector_norm(centred.detach(), dim=(0, 2, 3), keepdim=True)
    varies = norms.flatten() > 0
    rows = (centred / norms.masked_fill(norms == 0, 1.0)).transpose(1, 2).flatten(2).flatten(0, 1)
    with full_precision(x):
        scatter = rows.T @ rows  # (H D, H D)
    squares = scatter.view(num_heads, head_dim, num_heads, head_dim).square().sum(dim=(1, 3))
    own = squares.diagonal().masked_fill(~varies, 1.0)
    pairs = squares / (own[:, None] * own).sqrt()  # (H, H), 0 where a head does not vary
    return pairs.triu(1).sum() / (num_heads * (num_heads - 1) / 2)


def _scaled(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Scale each head by a power of 2, which rounds nothing, to values of at most 1."""
    dtype = compute_dtype(x)
    if x.numel() == 0:
        return x.to(dtype)
    longest = torch.linalg.vector_norm(x.detach(), torch.inf, dim=-1).to(dtype)  # (B, H, L)
    if padding_mask is not None:
        longest = longest.masked_fill(padding_mask.unsqueeze(1), 0.0)
    largest = longest.amax(dim=(0, 2))[:, None, None]  # (H, 1, 1)
    most = -int(math.log2(torch.finfo(dtype).tiny))  # a larger power overflows
    exponent = torch.frexp(largest).exponent.clamp(-most, most)
    return x.to(dtype) * torch.ldexp(torch.ones_like(largest), -exponent)


@dataclass
class CkaOptions:
    """Weight, components and target of CKA.

    A weight of 0.1 lowers CKA. To hold it at a value for an experiment, take a weight of 10 and
    that value as the target; CKA then stays within about 0.02 of it.
    """

    cka_weight: str = weight_option(
        "0.0",
        "weight of CKA between the heads' outputs, which is minimised or held at --cka-target; "
        "0: off",
    )
    cka_on: str | None = components_option("CKA applies")
    cka_target: float | None = option(
        None,
        "value at which CKA is held: the loss is the squared difference from it, layer by layer; "
        "default: none, CKA is minimised",
        legal=UNIT,
    )


@TERMS.register
class Cka(Term[CkaOptions]):
    """Mean CKA of a layer's head outputs over pairs of heads; logged without the target.

    Choose it to lower or to hold the similarity of heads, whatever the scale of their outputs.
    Heads that are equal up to rotation and scale have no gradient, so it cannot separate them.
    """

    name, options, wanted = "cka", CkaOptions, ("outputs",)

    def value(self, name: str, states: HeadStates, shared: None) -> Tensor:
        """Compute CKA of one layer."""
        return cka(states.required("outputs"), states.query_padding_mask)

    def share(self, layers: list[Tensor], sample_size: float | Tensor) -> Tensor:
        """Return the mean over layers of CKA, or of its squared distance from the target."""
        if self.given.cka_target is None:
            return super().share(layers, sample_size)
        return total([(value - self.given.cka_target) ** 2 for value in layers]) / len(layers)
