"""Fuses the output projection with label-smoothed cross-entropy, block by block.

The logits of N positions and V words would be the largest tensor in a training step of a small
model. Here one buffer holds the logits of a block of rows, and is reused. Only the gradients of the
features (N x C) and of the weight (V x C) are kept for the backward pass.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from diverse_mha.attention.core import launches_cost
from diverse_mha.attention.first_order import first_order_only

BLOCK_ROWS = 256  # rows of a block on a CPU
HALF_BLOCKS = 8  # blocks summed in half precision; with more, rounding would lose a block's part
BLOCK_SIZE = 2**26  # logits in a block on other devices


def fused_label_smoothed_loss(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    *,
    may_wait: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return label-smoothed loss and negative log-likelihood, summed over real positions.

    With features f, weight W, target word y, p = softmax(W f), and e = epsilon / (V - 1) for V
    words::

        loss = (1 - epsilon - e) * (-log p_y) + e * sum_v (-log p_v)

    which is fairseq's ``label_smoothed_nll_loss`` up to rounding. Its gradient in the logits is
    p - (1 - epsilon - e) onehot(y) - e. In half precision each block's matrix products are rounded
    before any loss scaling, unlike fairseq's; on a CPU the sums over 8 blocks are rounded too.

    Args:
        features: (..., C), input of the output projection.
        weight: (V, C), of the output projection, which has no bias.
        target: (...), word indices.
        epsilon: label smoothing, in [0, 1).
        padding_idx: index in ``target`` that is left out.
        may_wait: True if sizes and branches may depend on tensor values, which makes the host wait
            for the device; None: True on a CPU only.

    Returns:
        Two scalars, in nats: the loss, and the negative log-likelihood, which carries no gradient.
        In float32 or float64; differentiable once.
    """
    words = target.reshape(-1)
    rows = features.reshape(len(words), features.size(-1))  # not -1, which fails if C is 0
    real = words.ne(padding_idx)
    may_wait = not launches_cost(features.device) if may_wait is None else may_wait
    if may_wait:
        real = real.nonzero()[:, 0]  # (N,)
        rows, words, real = rows.index_select(0, real), words.index_select(0, real), None
    else:
        # Padding becomes zeros, so that it adds nothing to the weight's gradient.
        rows = rows.masked_fill(~real[:, None], 0.0)
    # Inside a Function's forward pass gradients are always off.
    needs_grad = torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad)
    return _FusedLoss.apply(rows, weight, words, real, epsilon, needs_grad, may_wait)


def _moved(part: Tensor, total: Tensor | None) -> Tensor:
    """Add ``part``, a sum in half precision, to ``total`` in float32, and set ``part`` to zero."""
    total = part.float() if total is None else total.add_(part)
    part.zero_()
    return total


class _FusedLoss(torch.autograd.Function):
    """The loss of rows (N, C), weight (V, C) and words (N,). ``real`` None: all rows are real."""

    @staticmethod
    def forward(ctx, rows, weight, words, real, epsilon: float, needs_grad: bool, may_wait: bool):
        ctx.may_wait, size = may_wait, weight.size(0)
        even = epsilon / max(size - 1, 1)  # a cluster of an adaptive softmax may have one word
        right = 1.0 - epsilon - even
        dtype = torch.promote_types(rows.dtype, torch.float32)
        count = len(rows)
        if real is None and rows.dtype != dtype:
            # Pad to whole blocks: oneDNN would compile new code for every size of the last block.
            spare = -count % BLOCK_ROWS
            rows, words = F.pad(rows, (0, 0, 0, spare)), F.pad(words, (0, spare))
        weight_sum = weight.sum(dim=0, dtype=dtype)  # (C,)
        nll = rows.new_zeros((), dtype=dtype)
        smooth = rows.new_zeros((), dtype=dtype)
        # On a CPU float32 sums would be slower.
        sums = rows.dtype if real is None else dtype
        in_place = dtype == rows.dtype or real is None
        grad_rows = torch.empty_like(rows, dtype=sums) if needs_grad else rows[:0]
        grad_weight = torch.zeros_like(weight, dtype=sums) if needs_grad else weight[:0]
        total_weight = None  # float32 sum of grad_weight, if that is in half precision
        step = BLOCK_ROWS if real is None else max(BLOCK_SIZE // size, 1)
        buffer = rows.new_empty(min(step, len(rows)), size)
        # Allocated once, because allocating this size is slow.
        converted = in_place and dtype != rows.dtype
        exact = torch.empty_like(buffer, dtype=dtype) if converted else buffer
        for number, start in enumerate(range(0, len(rows), step)):
            if needs_grad and sums != dtype and number and number % HALF_BLOCKS == 0:
                total_weight = _moved(grad_weight, total_weight)
            f, y = rows[start : start + step], words[start : start + step, None]
            block = torch.mm(f, weight.t(), out=buffer[: len(f)])  # (N', V)
            of_y = block.gather(1, y).to(dtype)
            if in_place:
                p = exact[: len(f)].copy_(block) if converted else block
                top = p.amax(dim=1, keepdim=True)  # (N', 1)
                total = p.sub_(top).exp_().sum(dim=1, keepdim=True)
                log_total = top + total.log()
                if needs_grad:
                    # Gradients are linear in p, so the target word's part is subtracted from p. It
                    # stays unnormalised: dividing the smaller factors by its sum is cheaper.
                    p.scatter_add_(1, y, -right * total)
                    if f.dtype == torch.float16:  # unnormalised sums over many words overflow
                        p.div_(total)
                        total.fill_(1.0)
                    share = (1.0 / total).to(f.dtype)
                    p = block.copy_(p)
                    torch.mm(p, weight, out=grad_rows[start : start + step]).mul_(share)
                    grad_weight.addmm_(p.t(), f * share)
            else:
                log_p = torch.log_softmax(block, dim=1, dtype=dtype)  # also converts to float32
                log_of_y = log_p.gather(1, y)
                log_total = of_y - log_of_y
                if needs_grad:
                    p = torch.exp(log_p, out=block)  # exp in float32, then rounded once
                    p.scatter_(1, y, (log_of_y.exp() - right).to(p.dtype))
                    grad_rows[start : start + step].copy_(torch.mm(p, weight))
                    grad_weight.add_(torch.mm(p.t(), f))
            if real is not None:
                is_real = real[start : start + step, None]
                of_y, log_total = of_y * is_real, log_total * is_real
            kept = slice(count - start)  # rows of this block that were not added as padding
            nll += (log_total - of_y)[kept].sum()
            smooth += size * log_total[kept].sum() - (f.to(dtype) @ weight_sum).sum()
            if needs_grad:
                grad_rows[start : start + step].sub_((even * weight_sum).to(sums))
        if needs_grad:
            if total_weight is not None:
                grad_weight = _moved(grad_weight, total_weight)
            grad_weight.sub_((even * rows.sum(dim=0, dtype=dtype)).to(grad_weight.dtype))
            grad_weight = grad_weight.to(sums)
            ctx.save_for_backward(grad_rows[:count], grad_weight)
            ctx.dtype = rows.dtype
        ctx.mark_non_differentiable(nll)
        return right * nll + even * smooth, nll

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor, _):
        grads = ctx.saved_tensors
        # Without loss scaling grad is 1. Only a CPU can check this without waiting.
        if not ctx.may_wait or grad.item() != 1.0:
            grads = [g.to(grad.dtype) * grad for g in grads]
        return *(g.to(ctx.dtype) for g in grads), None, None, None, None, None
