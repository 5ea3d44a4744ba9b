"""Output projection and label-smoothed cross-entropy in one, block by block.

With N target positions, V words and width C the logits are an N x V matrix, by far the
largest tensor of a small model's step: fairseq writes it, its log-softmax, the sum and
the gradients of both, and computes all of that for padding too. Here a block of rows
lives in one buffer that is used again and again; what is kept for the backward pass is
the gradient of the features (N x C) and of the weight (V x C).
"""

import torch
from torch import Tensor

from diverse_mha.common.first_order import first_order_only

# Rows of a block: enough for efficient matrix products, few enough to stay small.
BLOCK_ROWS = 256


def fused_label_smoothed_loss(
    features: Tensor, weight: Tensor, target: Tensor, epsilon: float, padding_idx: int
) -> tuple[Tensor, Tensor]:
    """Sum over real positions of fairseq's label-smoothed loss, and of the plain one.

    With e = epsilon / (V - 1), logits l = W f, and y the right word::

        loss = (1 - epsilon - e) * (-log p_y) + e * sum_v (-log p_v)

    which is ``label_smoothed_nll_loss`` of fairseq to rounding. Its gradient is
    p - (1 - epsilon - e) onehot(y) - e, so one exponential serves both directions. In half
    precision the gradients are rounded before any loss scaling, unlike fairseq's.

    Args:
        features: (..., C), what the output projection is applied to.
        weight: (V, C), of the output projection, which has no bias.
        target: (...) word numbers.
        epsilon: label smoothing, in [0, 1).
        padding_idx: targets of this number are left out.

    Returns:
        Two scalars, in nats: the loss, and the negative log-likelihood, which carries
        no gradient. In float32 at least; differentiable once.
    """
    real = target.reshape(-1).ne(padding_idx).nonzero()[:, 0]  # (N,)
    rows = features.reshape(-1, features.size(-1)).index_select(0, real)  # (N, C)
    words = target.reshape(-1).index_select(0, real)
    # Inside a Function's forward pass gradients are always off: ask here.
    needs_grad = torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad)
    return _FusedLoss.apply(rows, weight, words, epsilon, needs_grad)


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, weight: Tensor, words: Tensor, epsilon: float, needs_grad: bool):
        size = weight.size(0)
        even = epsilon / (size - 1)
        right = 1.0 - epsilon - even
        dtype = torch.promote_types(rows.dtype, torch.float32)
        weight_sum = weight.sum(dim=0, dtype=dtype)  # (C,)
        nll = rows.new_zeros((), dtype=dtype)
        smooth = rows.new_zeros((), dtype=dtype)
        grad_rows = torch.empty_like(rows) if needs_grad else None
        grad_weight = torch.zeros_like(weight) if needs_grad else None
        buffer = rows.new_empty(min(BLOCK_ROWS, len(rows)), size)
        for start in range(0, len(rows), BLOCK_ROWS):
            f, y = rows[start : start + BLOCK_ROWS], words[start : start + BLOCK_ROWS]
            block = torch.mm(f, weight.t(), out=buffer[: len(f)])  # (N', V)
            p = block.to(dtype)  # the same tensor unless the model is in half precision
            top = p.amax(dim=1, keepdim=True)  # (N', 1)
            of_y = p.gather(1, y[:, None])
            total = p.sub_(top).exp_().sum(dim=1, keepdim=True)
            log_total = top + total.log()
            nll += (log_total - of_y).sum()
            smooth += size * log_total.sum() - (f.to(dtype) @ weight_sum).sum()
            if needs_grad:
                # p stays unnormalised: the sum divides the small factors instead.
                share = (1.0 / total).to(f.dtype)
                p = p.to(f.dtype)
                grad = torch.mm(p, weight, out=grad_rows[start : start + BLOCK_ROWS])
                grad.mul_(share).sub_(right * weight[y]).sub_(even * weight_sum.to(f.dtype))
                grad_weight.addmm_(p.t(), f * share)
                grad_weight.index_add_(0, y, f, alpha=-right)
        if needs_grad:
            grad_weight.sub_(even * rows.sum(dim=0, dtype=dtype).to(weight.dtype))
            ctx.save_for_backward(grad_rows, grad_weight)
        ctx.mark_non_differentiable(nll)
        return right * nll + even * smooth, nll

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor, _):
        grad_rows, grad_weight = ctx.saved_tensors
        if grad.item() != 1.0:  # 1 but for loss scaling
            grad_rows, grad_weight = grad_rows * grad, grad_weight * grad
        return grad_rows, grad_weight, None, None, None
