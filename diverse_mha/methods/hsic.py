"""HSIC between the outputs of the heads, as a loss term (Yun et al. 2021, Eq. 4)."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.attention.first_order import first_order_only
from diverse_mha.attention.head_tensors import (
    check_head_tensor,
    check_padding_mask,
    compute_dtype,
    full_precision,
)
from diverse_mha.common.options import option
from diverse_mha.common.ranges import SEVERAL
from diverse_mha.methods.term import TERMS, Term, components_option, weight_option

NORMALIZATIONS = ("trace", "mean")
DEFAULT_NORMALIZATION = "trace"


def hsic(
    x: Tensor,
    padding_mask: Tensor | None = None,
    *,
    positions: Tensor | None = None,
    normalization: str = DEFAULT_NORMALIZATION,
) -> Tensor:
    """Mean over the pairs of heads i < j of HSIC(X_i, X_j), the regulariser of Yun et al. 2021.

    Choose it to make the outputs of heads statistically independent. The value grows with the scale
    of the outputs and with the number of positions, so its weight is small (1e-7 in the paper);
    :func:`~diverse_mha.methods.cka.cka` has no scale.

    With the N rows of X_i the vectors of head i at N positions, K_i their kernel matrix and
    C = I - 11^T/N (Yun et al. 2021, Eq. 4 and section 4.1)::

        trace: tr(K_i C K_j C)        mean: tr(K_i C K_j C) / (N-1)^2, which is Eq. 4

    The kernel is linear, k(x, y) = x.y. docs/equations.md has the forms that are computed.

    Args:
        x: (B, H, L, D), vectors of each head; any floating-point dtype and strides.
        padding_mask: (B, L) bool, True = padding, which is never read.
        positions: (N,) int64, the positions to use, as b * L + l, each at most once; see
            :func:`sample_positions`. Excludes ``padding_mask``. None uses all real positions. With
            G samples of positions, (G, N), the result is the mean over the samples.
        normalization: ``"trace"`` or ``"mean"``.

    Returns:
        Scalar, float32 (float64 for float64 ``x``), in fourth powers of the unit of ``x``, at
        least 0; lower = more diverse, 0 = uncorrelated. 0, with zero gradient, for one head or
        fewer than two samples. Differentiable once.

    Example:
        >>> import torch
        >>> x = torch.randn(2, 4, 10, 16)  # (B, H, L, D)
        >>> hsic(2 * x).item() / hsic(x).item() > 15  # the fourth power of the scale
        True
    """
    check_head_tensor("x", x, "(B, H, L, D)")
    check_padding_mask("padding_mask", padding_mask, (x.size(0), x.size(2)))
    if normalization not in NORMALIZATIONS:
        raise ValueError(f"normalization is {normalization!r}; expected one of {NORMALIZATIONS}")
    if positions is None:
        positions = _real_positions(padding_mask, x.size(0) * x.size(2), x.device)
    elif padding_mask is not None:
        raise ValueError("positions and padding_mask are both given; expected one of them")
    elif positions.dim() not in (1, 2) or positions.dtype != torch.int64:
        raise ValueError(
            f"positions has shape {tuple(positions.shape)} and dtype {positions.dtype}; "
            "expected (N,) or (G, N), and torch.int64"
        )
    return _MeanHSIC.apply(x, positions, normalization)


def sample_positions(
    padding_mask: Tensor | None,
    shape: tuple[int, int],
    samples: int,
    *,
    training: bool,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Choose at most ``samples`` real positions of a batch.

    Use it before :func:`hsic` in training, whose cost grows with the number of positions.

    Args:
        padding_mask: (B, L) bool, True = padding, or None.
        shape: (B, L).
        samples: largest number of positions.
        training: True draws without replacement from the device's default generator. False sorts
            positions by their index in the sentence, and takes evenly spaced positions.
        device: of the positions, if there is no mask.

    Returns:
        (N,) int64, positions as b * L + l; N is ``samples``, or the number of real positions if
        that is smaller (then nothing is drawn).

    Example:
        >>> padding = torch.tensor([[False, False, True], [False, False, False]])
        >>> sample_positions(padding, (2, 3), 10, training=True).tolist()  # all five real positions
        [0, 1, 3, 4, 5]
        >>> len(sample_positions(padding, (2, 3), 2, training=True))
        2
    """
    check_padding_mask("padding_mask", padding_mask, shape)
    if samples < 1:
        raise ValueError(f"samples is {samples}; expected 1 or more")
    device = device if padding_mask is None else padding_mask.device
    real = _real_positions(padding_mask, shape[0] * shape[1], device)
    if len(real) <= samples:
        return real
    if training:
        return real[torch.randperm(len(real), device=device)[:samples]]
    places, sentences = real % shape[1], real // shape[1]
    by_place = real[(places * shape[0] + sentences).argsort()]
    return by_place[torch.arange(samples, device=device) * len(real) // samples]


def _real_positions(padding_mask: Tensor | None, count: int, device) -> Tensor:
    if padding_mask is None:
        return torch.arange(count, device=device)
    return (~padding_mask).flatten().nonzero()[:, 0]


class _MeanHSIC(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, positions: Tensor, normalization: str):
        num_heads, count = x.size(1), positions.size(-1)
        sentences, places = positions // x.size(2), positions % x.size(2)
        rows = x.transpose(1, 2)[sentences, places].to(compute_dtype(x))  # (N, H, D), (G, N, H, D)
        ctx.layout = torch.empty_like(x, device="meta")  # shape, strides and dtype, no memory
        if num_heads < 2 or count < 2:
            ctx.save_for_backward(sentences, places, torch.zeros_like(rows))
            return rows.new_zeros(())
        with full_precision(x):
            if positions.dim() > 1:
                of_each = torch.vmap(functools.partial(_linear_pairs, needs_grad=True))
                value, grad_rows = of_each(rows)
                value = value.mean()
                grad_rows = None if grad_rows is None else grad_rows / len(positions)
            else:
                value, grad_rows = _linear_pairs(rows, ctx.needs_input_grad[0])
        scale = 2.0 / (num_heads * (num_heads - 1))
        if normalization == "mean":
            scale /= (count - 1) ** 2
        if grad_rows is not None:
            ctx.save_for_backward(sentences, places, grad_rows.mul_(scale))
        return value * scale

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor):
        sentences, places, grad_rows = ctx.saved_tensors
        grad_x = torch.zeros_like(ctx.layout, device=grad.device)
        grad_x.transpose(1, 2)[sentences, places] = (grad_rows * grad).to(grad_x.dtype)
        return grad_x, None, None


def _linear_pairs(rows: Tensor, needs_grad: bool) -> tuple[Tensor, Tensor | None]:
    """Return the sum over pairs of ||X_i^T C X_j||^2, and its gradient (N, H, D).

    X (N, H * D) are the centred heads. Each pair has two off-diagonal blocks in X^T X, so the sum
    over pairs is half the sum over these blocks. With M = X^T X without its diagonal blocks, the
    gradient is 2 X M.
    """
    count, num_heads, head_dim = rows.shape
    if count + 2 * head_dim < num_heads * head_dim:
        return _linear_pairs_by_kernels(rows, needs_grad)
    centred = (rows - rows.mean(dim=0)).flatten(1)  # (N, H * D)
    product = centred.t() @ centred  # (H * D, H * D)
    product.view(num_heads, head_dim, num_heads, head_dim).diagonal(dim1=0, dim2=2).zero_()
    value = torch.linalg.vector_norm(product).square() / 2
    if not needs_grad:
        return value, None
    # Columns of X M sum to zero, as those of X do.
    return value, (centred @ product).mul_(2.0).view(count, num_heads, head_dim)


def _linear_pairs_by_kernels(rows: Tensor, needs_grad: bool) -> tuple[Tensor, Tensor | None]:
    """Return the results of :func:`_linear_pairs`, from the sum of the heads' kernel matrices.

    With X_i centred and K = sum_i X_i X_i^T (N, N), the sum over pairs is (||K||^2 - sum_i
    ||X_i^T X_i||^2) / 2, and its gradient for X_i is 2 (K X_i - X_i X_i^T X_i).
    """
    count, num_heads, head_dim = rows.shape
    centred = rows - rows.mean(dim=0)  # (N, H, D)
    joined, by_head = centred.flatten(1), centred.transpose(0, 1)
    total = joined @ joined.t()  # (N, N)
    own = by_head.transpose(1, 2) @ by_head  # (H, D, D)
    norm = torch.linalg.vector_norm
    # The value is a sum of squares, so only rounding makes it negative.
    value = ((norm(total).square() - norm(own).square()) / 2).clamp_min(0.0)
    if not needs_grad:
        return value, None
    grad = (total @ joined).view(count, num_heads, head_dim)
    grad = grad.sub_((by_head @ own).transpose(0, 1))
    return value, grad.mul_(2.0)


@dataclass
class HSICOptions:
    """Weight, components, scale and sample of HSIC.

    Start with the paper's weight of 1e-7. Lower it for models with wide activations or if you raise
    ``hsic_samples``, because the value grows with both. Change ``hsic_normalization`` only together
    with the weight: with ``mean``, the same pull needs a weight of 0.026.
    """

    hsic_weight: str = weight_option(
        "0.0",
        "weight of HSIC between the heads' outputs, which is minimised (Yun et al. 2021: 1e-7); "
        "0: off",
    )
    hsic_on: str | None = components_option("HSIC applies")
    hsic_normalization: str = option(
        DEFAULT_NORMALIZATION,
        "scale of HSIC over N positions: trace, or mean, which is trace / (N-1)^2; the weight "
        "depends on it (docs/equations.md)",
        choices=NORMALIZATIONS,
    )
    hsic_samples: int = option(
        512,
        "largest number of positions of a batch that HSIC uses, drawn at random in training",
        legal=SEVERAL,
    )


@TERMS.register
class HSIC(Term[HSICOptions]):
    """Mean HSIC of the pairs of heads, at least 0, lower = more diverse; minimised.

    Choose it for heads with independent outputs. Expect CKA to fall, by a quarter in our
    translation models, and no clear change of BLEU.

    The samples are positions of the whole batch, the same in all layers of a component.
    """

    name, options, wanted = "hsic", HSICOptions, ("outputs",)
    joinable = ("hsic",)

    def shared(self, layers: list[HeadStates], training: bool) -> tuple[Tensor, int]:
        """Return positions and the number of sentences of a layer."""
        outputs = layers[0].required("outputs")  # (B, H, T, D)
        positions = sample_positions(
            layers[0].query_padding_mask,
            (outputs.size(0), outputs.size(2)),
            self.given.hsic_samples,
            training=training,
            device=outputs.device,
        )
        return positions, outputs.size(0)

    def value(self, name: str, states: HeadStates, shared: tuple[Tensor, int]) -> Tensor:
        """Compute the mean HSIC at the positions, of one layer or of several joined layers."""
        outputs = states.required("outputs")
        positions, sentences = shared
        joined = outputs.size(0) // max(sentences, 1)
        if joined > 1:
            first = torch.arange(joined, device=positions.device) * sentences
            positions = positions + first[:, None] * outputs.size(2)
        return hsic(
            outputs,
            positions=positions,
            normalization=self.given.hsic_normalization,
        )
