"""The network across heads as one Triton kernel per pass; hidden layers stay on the chip.

A program takes tiles of (query, key) pairs through all layers. Importing this module needs Triton,
which comes with torch for CUDA. With ``TRITON_INTERPRET=1``, the kernel runs on a CPU.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from diverse_mha.attention.first_order import first_order_only
from diverse_mha.methods.coda.chunked import NEGATIVE_SLOPE


class Form(NamedTuple):
    """Launch configuration of a pass."""

    pairs: int  # (query, key) pairs of a tile
    warps: int
    programs: int  # largest number; each program holds the weights and goes from tile to tile


# (pass, bytes per number) -> fastest form in a sweep on an H100 (docs/performance.md). In the
# backward pass larger tiles of float32 do not fit into the registers.
FORMS = {
    ("forward", 2): Form(64, 4, 2112),
    ("forward", 4): Form(32, 4, 2112),
    ("backward", 2): Form(128, 4, 264),
    ("backward", 4): Form(16, 8, 528),
}
# Arguments that are not specialised, so that new lengths do not compile the kernels again.
_LENGTHS = ["pairs", "columns", "tiles", "total", "mask_b", "mask_t", "mask_s"]


@triton.jit
def _matrix(pointer, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Load (rows, columns), padded with zeros to (ROWS, COLUMNS)."""
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    return tl.load(pointer + r * columns + c, mask=(r < rows) & (c < columns), other=0.0)


@triton.jit
def _put(pointer, value, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Store the part (rows, columns) of (ROWS, COLUMNS); return the pointer to its end."""
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(pointer + r * columns + c, value, mask=(r < rows) & (c < columns))
    return pointer + rows * columns


@triton.jit
def _product(a, b):
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _hidden(weight, bias, x, slope):
    """Return a hidden layer in the dtype of its input."""
    out = _product(weight, x) + bias.to(tl.float32)
    return tl.where(out > 0, out, out * slope).to(x.dtype)


@triton.jit
def _places(tile, heads, pairs, tiles, HEADS: tl.constexpr, PAIRS_: tl.constexpr):
    """Return a tile's sentence, pairs (1, PAIRS_), offsets (HEADS, PAIRS_) and valid offsets."""
    sentence = (tile // tiles).to(tl.int64)
    pair = (tile % tiles) * PAIRS_ + tl.arange(0, PAIRS_)[None, :]
    head = tl.arange(0, HEADS)[:, None]
    at = (sentence * heads + head) * pairs + pair
    return sentence, pair, at, (head < heads) & (pair < pairs)


@triton.jit
def _masked(mask, sentence, pair, pairs, columns, mask_b, mask_t, mask_s):
    """Return True for pairs that may not attend, (1, PAIRS_)."""
    at = sentence * mask_b + (pair // columns) * mask_t + (pair % columns) * mask_s
    return tl.load(mask + at, mask=pair < pairs, other=0) != 0


@triton.jit(do_not_specialize=_LENGTHS)
def _forward(
    logits, previous, x_out, result, mask, w1, b1, w2, b2, w3, b3,
    heads, width, slope, pairs, columns, tiles, total, mask_b, mask_t, mask_s,
    MASKED: tl.constexpr, NOISE: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, PAIRS_: tl.constexpr,
):  # fmt: skip
    one, two = _matrix(w1, width, heads, WIDTH, HEADS), _matrix(w2, width, width, WIDTH, WIDTH)
    three = _matrix(w3, heads, width, HEADS, WIDTH)
    bias1, bias2 = _matrix(b1, width, 1, WIDTH, 1), _matrix(b2, width, 1, WIDTH, 1)
    bias3 = _matrix(b3, heads, 1, HEADS, 1).to(tl.float32)
    for tile in range(tl.program_id(0), total, tl.num_programs(0)):
        # To Python, a call within a kernel never returns.
        sentence, pair, at, there = _places(tile, heads, pairs, tiles, HEADS, PAIRS_)  # pyright: ignore[reportGeneralTypeIssues]
        x = tl.load(logits + at, mask=there, other=0.0)
        other = tl.load(previous + at, mask=there, other=0.0)
        x = (x.to(tl.float32) + other.to(tl.float32)).to(x.dtype)
        if MASKED:
            hidden = _masked(mask, sentence, pair, pairs, columns, mask_b, mask_t, mask_s)
            x = tl.where(hidden, tl.zeros_like(x), x)
        tl.store(x_out + at, x, mask=there)
        out = _hidden(two, bias2, _hidden(one, bias1, x, slope), slope)
        out = _product(three, out) + bias3 + x.to(tl.float32)
        if NOISE:
            out += tl.load(result + at, mask=there, other=0.0).to(tl.float32)
        if MASKED:
            out = tl.where(hidden, tl.zeros_like(out), out)
        tl.store(result + at, out.to(x.dtype), mask=there)


@triton.jit(do_not_specialize=_LENGTHS)
def _backward(
    x_in, grad_in, grad_out, sums, mask, w1, b1, w2, b2, w3,
    heads, width, size, slope, pairs, columns, tiles, total, mask_b, mask_t, mask_s,
    MASKED: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, PAIRS_: tl.constexpr,
):  # fmt: skip
    one, two = _matrix(w1, width, heads, WIDTH, HEADS), _matrix(w2, width, width, WIDTH, WIDTH)
    three = _matrix(w3, heads, width, HEADS, WIDTH)
    bias1, bias2 = _matrix(b1, width, 1, WIDTH, 1), _matrix(b2, width, 1, WIDTH, 1)
    sum_w1, sum_b1 = tl.zeros((WIDTH, HEADS), tl.float32), tl.zeros((WIDTH, 1), tl.float32)
    sum_w2, sum_b2 = tl.zeros((WIDTH, WIDTH), tl.float32), tl.zeros((WIDTH, 1), tl.float32)
    sum_w3, sum_b3 = tl.zeros((HEADS, WIDTH), tl.float32), tl.zeros((HEADS, 1), tl.float32)
    for tile in range(tl.program_id(0), total, tl.num_programs(0)):
        # To Python, a call within a kernel never returns.
        sentence, pair, at, there = _places(tile, heads, pairs, tiles, HEADS, PAIRS_)  # pyright: ignore[reportGeneralTypeIssues]
        x = tl.load(x_in + at, mask=there, other=0.0)
        grad = tl.load(grad_in + at, mask=there, other=0.0)
        if MASKED:
            hidden = _masked(mask, sentence, pair, pairs, columns, mask_b, mask_t, mask_s)
            grad = tl.where(hidden, tl.zeros_like(grad), grad)
        first = _hidden(one, bias1, x, slope)
        second = _hidden(two, bias2, first, slope)
        sum_w3 += _product(grad, tl.trans(second))
        sum_b3 += tl.sum(grad.to(tl.float32), axis=1, keep_dims=True)
        # LeakyReLU keeps the sign, so a layer's result stands in for its input.
        inner = _product(tl.trans(three), grad)
        inner = tl.where(second > 0, inner, inner * slope).to(x.dtype)
        sum_w2 += _product(inner, tl.trans(first))
        sum_b2 += tl.sum(inner.to(tl.float32), axis=1, keep_dims=True)
        inner = _product(tl.trans(two), inner)
        inner = tl.where(first > 0, inner, inner * slope).to(x.dtype)
        sum_w1 += _product(inner, tl.trans(x))
        sum_b1 += tl.sum(inner.to(tl.float32), axis=1, keep_dims=True)
        out = grad.to(tl.float32) + _product(tl.trans(one), inner)
        if MASKED:
            out = tl.where(hidden, tl.zeros_like(out), out)
        tl.store(grad_out + at, out.to(x.dtype), mask=there)
    place = sums + tl.program_id(0).to(tl.int64) * size
    place = _put(place, sum_w1, width, heads, WIDTH, HEADS)
    place = _put(place, sum_b1, width, 1, WIDTH, 1)
    place = _put(place, sum_w2, width, width, WIDTH, WIDTH)
    place = _put(place, sum_b2, width, 1, WIDTH, 1)
    place = _put(place, sum_w3, heads, width, HEADS, WIDTH)
    _put(place, sum_b3, heads, 1, HEADS, 1)


class TiledNetwork(torch.autograd.Function):
    """Computes the same as ``ChunkedNetwork``, up to rounding, for two hidden layers.

    Sums within a tile are float32; hidden layers and gradients between layers are rounded to the
    dtype of the logits. Programs of the backward pass write separate sums, so the result does not
    depend on the order in which they end.
    """

    @staticmethod
    def forward(ctx, logits, previous, masked, noise: float, *parameters: Tensor) -> Tensor:
        """Compute the sample as ``ChunkedNetwork`` does; all heads share the mask."""
        logits, previous = logits.contiguous(), previous.contiguous()
        own = [p.contiguous() for p in parameters]
        x, result = torch.empty_like(logits), torch.empty_like(logits)
        if noise:
            result.normal_(0.0, noise)
        ctx.save_for_backward(x, masked, *own)
        form, shape, tiles, sizes = _layout("forward", logits, own[0])
        mask, strides = _mask(masked, logits)
        if total := logits.size(0) * tiles:
            with torch.cuda.device_of(logits):  # Triton launches on the current device
                _launch(
                    _forward, min(form.programs, total),
                    logits, previous, x, result, mask, *own,
                    *shape, NEGATIVE_SLOPE, *_lengths(logits), tiles, total, *strides,
                    MASKED=masked is not None, NOISE=bool(noise), **sizes, num_warps=form.warps,
                )  # fmt: skip
        return result

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor):
        """Recompute the layers and return the gradients, tile by tile."""
        x, masked, *parameters = ctx.saved_tensors
        grad, grad_x = grad.contiguous(), torch.empty_like(x)
        form, shape, tiles, sizes = _layout("backward", x, parameters[0])
        mask, strides = _mask(masked, x)
        size, total = sum(p.numel() for p in parameters), x.size(0) * tiles
        sums = torch.zeros(max(min(form.programs, total), 1), size, device=x.device)
        if total:
            with torch.cuda.device_of(x):
                _launch(
                    _backward, len(sums),
                    x, grad, grad_x, sums, mask, *parameters[:-1],
                    *shape, size, NEGATIVE_SLOPE, *_lengths(x), tiles, total, *strides,
                    MASKED=masked is not None, **sizes, num_warps=form.warps,
                )  # fmt: skip
        parts = sums.sum(dim=0).split([p.numel() for p in parameters])
        grads = (s.view_as(p).to(p.dtype) for s, p in zip(parts, parameters, strict=True))
        return grad_x, grad_x, None, None, *grads


def _launch(kernel: Any, programs: int, *arguments: Any, **options: Any) -> None:
    """Run a kernel; Triton's types do not know launch options such as ``num_warps``."""
    kernel[(programs,)](*arguments, **options)


def _layout(
    which: str, logits: Tensor, weight: Tensor
) -> tuple[Form, tuple[int, int], int, dict[str, int]]:
    """Return a pass's form, (heads, width), the number of tiles per sentence, and block sizes.

    Blocks are powers of 2, at least 16.
    """
    width, heads = weight.shape
    form = FORMS[which, logits.element_size()]
    padded = {"HEADS": heads, "WIDTH": width}
    sizes = {name: max(16, 1 << (n - 1).bit_length()) for name, n in padded.items()}
    tiles = -(logits.size(2) * logits.size(3) // -form.pairs)  # rounded up
    return form, (heads, width), tiles, {**sizes, "PAIRS_": form.pairs}


def _lengths(logits: Tensor) -> tuple[int, int]:
    """Return the number of (query, key) pairs and the number of keys of a sentence."""
    return logits.size(2) * logits.size(3), logits.size(3)


def _mask(masked: Tensor | None, logits: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """Return a mask's bytes, and its strides over sentences, queries and keys."""
    if masked is None:
        return logits, (0, 0, 0)  # a placeholder, which the kernels do not read
    bsz, _, queries, keys = logits.shape
    spread = masked.expand(bsz, 1, queries, keys)
    strides = spread.stride()
    return masked.view(torch.uint8), (strides[0], strides[2], strides[3])
