"""Orthogonality of the heads, SRIP and cosine, as a loss term (Yun et al. 2021, 4.2)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.attention.core import launches_cost
from diverse_mha.attention.first_order import first_order_only
from diverse_mha.attention.head_tensors import (
    full_precision,
    overflow_to_nan,
    position_weights,
)
from diverse_mha.common.options import option, parse_names
from diverse_mha.methods.disagreement import mean_pairwise_cosine
from diverse_mha.methods.term import TERMS, Term, components_option, total, weight_option

METHODS = ("power", "exact")
POWER_ITERATIONS = 2
MOST_MATRICES = 2**14  # matrices per call, because cuSOLVER refuses about 32,000


def srip(
    x: Tensor,
    padding_mask: Tensor | None = None,
    *,
    method: str = "power",
    iterations: int = POWER_ITERATIONS,
) -> Tensor:
    """Mean over real positions of the spectral norm of V^T V - I, V the heads' vectors.

    Choose it to make the values of heads perpendicular, if the width of a head is at least the
    number of heads. It is the dearest term (1.4 times the time of an update), and in our study
    heads hardly changed.

    The orthogonality term of Yun et al. 2021 (section 4.2), after Bansal et al. 2018: V is
    D x H, one column per head, at one position; sigma(W) is the largest absolute eigenvalue of
    the symmetric W = V^T V - I, 0 for orthonormal vectors.

    With u the eigenvector, ``sigma = | ||V u||^2 - 1 |``. The gradient of sigma is the same if u is
    held fixed, so u needs no gradient. ``"exact"`` computes all eigenvalues. ``"power"`` runs power
    iterations without random numbers, and a Rayleigh-Ritz step (docs/equations.md).

    Args:
        x: (B, H, L, D), vectors of each head; any floating-point dtype and strides.
        padding_mask: (B, L) bool, True = padding, which is never read and gets zero gradient.
        method: ``"power"`` or ``"exact"``.
        iterations: iterations of the power method before the Rayleigh-Ritz step; 0 or more.

    Returns:
        Scalar, float32 (float64 for float64 ``x``), at least 0, in squares of the unit of ``x``; 0
        without a real position; NaN if it overflows. Differentiable once.

    Example:
        >>> import torch
        >>> heads = torch.eye(4).view(1, 4, 1, 4)  # four orthonormal heads
        >>> srip(heads).item() < 1e-6
        True
    """
    weights = position_weights("x", x, padding_mask, "(B, H, L, D)")
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; expected one of {METHODS}")
    if iterations < 0:
        raise ValueError(f"iterations is {iterations}; expected 0 or more")
    return _MeanSRIP.apply(x, weights, padding_mask, None if method == "exact" else iterations)


class _MeanSRIP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weights: Tensor, padding_mask: Tensor | None, iterations):
        columns = x.transpose(1, 2).to(weights.dtype)  # (B, L, H, D)
        with full_precision(x):
            gap = columns @ columns.transpose(2, 3)  # (B, L, H, H)
            gap.diagonal(dim1=2, dim2=3).sub_(1.0)
            if padding_mask is not None:
                gap.masked_fill_(padding_mask[:, :, None, None], 0.0)
            value, u = _exact(gap) if iterations is None else _power(gap, iterations)
        ctx.save_for_backward(x, u, value.sign() * weights, padding_mask)
        return (value.abs() * weights).sum()

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor):
        """Gradient for V: 2 sign(u.W u) (V u) u^T at each position, times its weight."""
        x, u, scale, padding_mask = ctx.saved_tensors
        columns = x.transpose(1, 2).to(u.dtype)  # (B, L, H, D)
        u = u.unsqueeze(2)  # (B, L, 1, H)
        with full_precision(x):
            along = (u @ columns).mul_((2.0 * grad * scale)[:, :, None, None])  # (B, L, 1, D)
        if padding_mask is not None:
            along.masked_fill_(padding_mask[:, :, None, None], 0.0)
        grad_x = (u.transpose(2, 3) * along).to(x.dtype).transpose(1, 2)  # (B, H, L, D)
        return grad_x, None, None, None


def _exact(gap: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalue of largest absolute value (...), and its unit eigenvector (..., H)."""
    parts = gap.flatten(0, -3).split(MOST_MATRICES)
    results = zip(*(torch.linalg.eigh(part) for part in parts), strict=True)
    values, vectors = (torch.cat(x).unflatten(0, gap.shape[:-2]) for x in results)
    top = values.abs().argmax(dim=-1, keepdim=True)
    return _pick(values, top), _pick(vectors, top.unsqueeze(-2))


def _power(gap: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Approximate :func:`_exact`; the eigenvector is 0 where ``gap`` (W) is 0."""
    start = torch.linalg.vector_norm(gap, dim=-1).argmax(dim=-1, keepdim=True)  # (..., 1)
    p, _ = _unit(_pick(gap, start.unsqueeze(-2)))
    for _ in range(iterations):
        p, _ = _unit(_times(gap, p))
    image = _times(gap, p)
    a = torch.linalg.vecdot(p, image)
    q, b = _unit(image - a.unsqueeze(-1) * p)
    # If p is an eigenvector, q consists of rounding errors.
    q, _ = _unit(q - torch.linalg.vecdot(p, q).unsqueeze(-1) * p)
    q = q.masked_fill((b <= 16 * torch.finfo(gap.dtype).eps * a.abs()).unsqueeze(-1), 0.0)
    b = torch.linalg.vecdot(q, image)
    c = torch.linalg.vecdot(q, _times(gap, q))
    # W on the span of p and q is [[a, b], [b, c]], with eigenvalues mean -+ hypot(half, b).
    mean, half = (a + c) / 2, (a - c) / 2
    sign = torch.where(mean < 0, -1.0, 1.0).to(gap.dtype)
    angle = torch.atan2(sign * b, sign * half) / 2
    u = p * angle.cos().unsqueeze(-1) + q * angle.sin().unsqueeze(-1)
    return mean + sign * torch.hypot(half, b), u


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """Return the entry of each last dimension at ``index`` (..., 1)."""
    return torch.take_along_dim(x, index, dim=-1).squeeze(-1)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the unit vector along ``x`` (0 if ``x`` is 0), and the norm of ``x``."""
    norm = overflow_to_nan(torch.linalg.vector_norm(x, dim=-1))
    return x / norm.clamp_min(torch.finfo(x.dtype).tiny).unsqueeze(-1), norm


NORMALIZATIONS = ("mean-loss", "summed-loss")
DEFAULT_NORMALIZATION = "summed-loss"
# Letter of a projection -> its head state and mask.
_STATES = {
    "q": ("queries", "query_padding_mask"),
    "k": ("keys", "key_padding_mask"),
    "v": ("values", "key_padding_mask"),
}


@dataclass
class OrthogonalityOptions:
    """Weight, components and form of the orthogonality term.

    The paper's weight of 1.0 is safe with ``summed-loss``, the default. With ``mean-loss`` our
    model ended at 3.6 BLEU instead of 40 with it, so take less there.
    """

    orthogonality_weight: str = weight_option(
        "0.0",
        "weight of the orthogonality regulariser (SRIP plus cosines), which is minimised (Yun et "
        "al. 2021: 1.0); 0: off",
    )
    orthogonality_on: str | None = components_option("orthogonality applies")
    orthogonality_normalization: str = option(
        DEFAULT_NORMALIZATION,
        "loss that the regulariser joins: mean-loss (of a token) or summed-loss (of a batch); the "
        "weight depends on it (docs/equations.md)",
        choices=NORMALIZATIONS,
    )
    orthogonality_cosine_projections: str = option(
        "q,k,v",
        "projections for the cosine part: comma list of q, k, v; or none",
    )
    orthogonality_method: str = option(
        "power",
        "how SRIP computes the spectral norm: power (fast, about 1% too small) or exact",
        choices=METHODS,
    )


@TERMS.register
class Orthogonality(Term[OrthogonalityOptions]):
    """SRIP of the values, and mean cosines of projections; lower = closer to orthogonal; minimised.

    Choose it to repeat Yun et al. 2021. It takes 1.4 times the time of an update, the most of all
    terms, and heads hardly changed in our study.

    The cosines of the projections are summed. The paper does not say which loss its lambda refers
    to. ``mean-loss`` adds the mean over a component's layers to the mean loss of a token.
    ``summed-loss`` adds the sum over the layers, once per batch and process, to the loss summed
    over the batch's tokens; so the effective weight is lambda * layers / tokens.
    """

    name, options = "orthogonality", OrthogonalityOptions
    joinable = ("orthogonality", "orthogonality_cosine")

    def __init__(
        self, given: OrthogonalityOptions, weight: float, components: tuple[str, ...]
    ) -> None:
        super().__init__(given, weight, components)
        self.cosine_on, on = (), given.orthogonality_cosine_projections
        if on != "none":
            option = "orthogonality_cosine_projections"
            self.cosine_on = parse_names(option, on, tuple(_STATES))
        used = dict.fromkeys(("v", *self.cosine_on))
        self.wanted = tuple(_STATES[letter][0] for letter in used)

    @property
    def logged(self) -> tuple[str, ...]:
        """Names in the log: SRIP, and the cosine if there is one."""
        return ("orthogonality", "orthogonality_cosine") if self.cosine_on else ("orthogonality",)

    def share(self, layers: list[Tensor], sample_size: float | Tensor) -> Tensor:
        """Return a component's part of the mean loss, at weight 1."""
        if self.given.orthogonality_normalization == "mean-loss":
            return super().share(layers, sample_size)
        return total(layers) / sample_size

    def value(self, name: str, states: HeadStates, shared: None) -> Tensor:
        """Compute SRIP of the values, or sum the mean cosine over the projections."""
        if name == "orthogonality":
            method = self.given.orthogonality_method
            return srip(states.required("values"), states.key_padding_mask, method=method)
        parts = [[getattr(states, p) for p in _STATES[letter]] for letter in self.cosine_on]
        if not launches_cost(parts[0][0].device):
            return total([mean_pairwise_cosine(*part) for part in parts])
        groups = {}
        for x, mask in parts:
            groups.setdefault((x.shape, id(mask)), []).append((x, mask))
        return total([len(own) * _joint_cosine(*zip(*own, strict=True)) for own in groups.values()])


def _joint_cosine(projections: tuple[Tensor, ...], masks: tuple[Tensor | None, ...]) -> Tensor:
    """Return the mean cosine over projections of equal shape and mask, joined to one batch."""
    mask = None if masks[0] is None else masks[0].repeat(len(masks), 1)
    return mean_pairwise_cosine(torch.cat(projections), mask)
