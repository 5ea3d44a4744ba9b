"""Computes the network across heads in chunks, and recomputes it in the backward pass."""

import math
from collections.abc import Iterable, Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.first_order import first_order_only

NEGATIVE_SLOPE = 0.2  # of the LeakyReLU


class _Layer(nn.Linear):
    """A linear layer that torch's quantisation skips, which would hide the weights from kernels.

    Quantisation replaces instances of ``nn.Linear`` itself, not of its subclasses.
    """


class HeadNetwork(nn.Module):
    """A perceptron from H heads to H heads, the same at every (query, key) pair.

    Zheng et al. 2021, Eq. 4 and appendix A, as in the authors' release::

        h_1 = LeakyReLU(W_1 x + b_1),  h_k = LeakyReLU(W_k h_(k-1) + b_k),  y = W h_depth + b

    with x the H logits of a pair and LeakyReLU of slope 0.2. Weights start as Xavier uniform with
    gain 1/sqrt(2), biases as 0. The release has two hidden layers of width 4 H. The paper's text
    has one hidden layer, of width 2 H, 4 H or 8 H.

    Args:
        num_heads: H.
        hidden_ratio: width of the hidden layers, in multiples of H.
        depth: number of hidden layers.
    """

    def __init__(self, num_heads: int, *, hidden_ratio: int = 4, depth: int = 2):
        super().__init__()
        widths = [num_heads] + [hidden_ratio * num_heads] * depth + [num_heads]
        pairs = zip(widths[:-1], widths[1:], strict=True)
        self.layers = nn.ModuleList(_Layer(before, after) for before, after in pairs)
        self.reset_parameters()

    @property
    def _linear(self) -> Iterable[_Layer]:
        return cast("Iterable[_Layer]", self.layers)  # torch types the members of a list as Module

    def reset_parameters(self) -> None:
        """Draw new weights and set the biases to zero."""
        for layer in self._linear:
            nn.init.xavier_uniform_(layer.weight, gain=1.0 / math.sqrt(2.0))
            nn.init.zeros_(layer.bias)

    def flat_parameters(self) -> list[Tensor]:
        """Return weight and bias of each layer in turn: W_1, b_1, W_2, b_2 and so on."""
        return [p for layer in self._linear for p in (layer.weight, layer.bias)]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the network to every pair of (B, H, T, S)."""
        x = x.permute(0, 2, 3, 1)  # (B, T, S, H)
        for layer in self.layers[:-1]:
            x = F.leaky_relu(layer(x), NEGATIVE_SLOPE)  # (B, T, S, hidden_ratio * H)
        return self.layers[-1](x).permute(0, 3, 1, 2)  # (B, H, T, S)


CPU_CHUNK = 2**18  # elements of a hidden layer at once: 1 MiB, so that all layers stay in cache
DEVICE_CHUNK = 2**26  # elements at once on other devices, where only memory matters
WORTH_LEAVING_OUT = 0.9  # share of open cells above which masked cells are computed too
LEAKY_BACKWARD = torch.ops.aten.leaky_relu_backward.grad_input


class ChunkedNetwork(torch.autograd.Function):
    """x + sigma(x) + noise with x = logits + previous, and 0 at masked cells.

    Only x is kept for the backward pass, which runs the layers again. In memory, logits are a
    matrix with a row for each head and a column for each (query, key) pair. A chunk of columns runs
    through all layers before the next chunk starts. On a CPU, half precision runs in float32, and
    cells that are masked for all sentences and heads are left out.
    """

    @staticmethod
    def forward(
        ctx,
        logits: Tensor,
        previous: Tensor,
        masked: Tensor | None,
        noise: float,
        *parameters: Tensor,
    ) -> Tensor:
        """Compute the sample.

        Args:
            ctx: autograd's context.
            logits: (B, H, T, S), any strides.
            previous: (B, H, T, S), of the same dtype, any strides.
            masked: bool, broadcasts to (B, H, T, S), or None.
            noise: standard deviation of the noise; 0 for none.
            *parameters: weight and bias of each layer in turn, of the dtype of ``logits``.

        Returns:
            (B, H, T, S), contiguous.
        """
        cells, masked = _open_cells(logits, masked)
        x = _take(torch.add(logits, previous), cells).contiguous()
        if masked is not None:
            x.masked_fill_(masked, 0.0)
        ctx.shape = logits.shape
        ctx.save_for_backward(x, masked, cells, *parameters)
        dtype = _layers_dtype(x)
        own = [p.to(dtype) for p in parameters]
        weights, biases = own[::2], own[1::2]
        result = torch.empty_like(x)
        if noise:
            result.normal_(0.0, noise)
        with torch.autocast(x.device.type, enabled=False):
            hidden = _Buffers(min(2, len(weights) - 1), weights[0].size(0), x)
            for chunk in _chunks(x, hidden.columns):
                columns = _columns(x, chunk).to(dtype)
                out = columns
                for k, (weight, bias) in enumerate(zip(weights[:-1], biases[:-1], strict=True)):
                    out = _hidden(weight, bias, out, hidden.take(k % 2, columns.size(1)))
                out = torch.addmm(biases[-1].unsqueeze(1), weights[-1], out).add_(columns)
                place = _place(result, chunk)  # (H, b, n)
                out = out.view(place.shape)
                place.add_(out) if noise else place.copy_(out)
        if masked is not None:
            result.masked_fill_(masked, 0.0)
        return _put(result, cells, ctx.shape)

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor):
        """Recompute the layers and return the gradients, chunk by chunk."""
        x, masked, cells, *parameters = ctx.saved_tensors
        dtypes, dtype = [p.dtype for p in parameters], _layers_dtype(x)
        parameters = [p.to(dtype) for p in parameters]
        weights, biases = parameters[::2], parameters[1::2]
        depth = len(weights) - 1
        grad_x = torch.empty_like(x).copy_(grad) if cells is None else _take(grad, cells)
        if masked is not None:
            grad_x.masked_fill_(masked, 0.0)
        exact = torch.float32 if x.dtype.itemsize < 4 else x.dtype
        totals = [torch.zeros_like(p, dtype=exact) for p in parameters]
        with torch.autocast(x.device.type, enabled=False):
            hidden = _Buffers(depth + min(2, depth), weights[0].size(0), x)
            for chunk in _chunks(x, hidden.columns):
                inputs = [_columns(x, chunk).to(dtype)]
                width = inputs[0].size(1)
                for k in range(depth):
                    out = hidden.take(k, width)
                    inputs.append(_hidden(weights[k], biases[k], inputs[-1], out))
                residual = grads = _columns(grad_x, chunk).to(dtype)
                for k in range(depth, 0, -1):
                    _accumulate(totals[2 * k], totals[2 * k + 1], grads, inputs[k])
                    # Two buffers in turn, because the product must not write where it reads.
                    out = hidden.take(depth + k % 2 if depth > 1 else depth, width)
                    grads = torch.mm(weights[k].t(), grads, out=out)
                    # LeakyReLU keeps the sign, so its result stands in for its input.
                    LEAKY_BACKWARD(grads, inputs[k], NEGATIVE_SLOPE, True, grad_input=grads)
                _accumulate(totals[0], totals[1], grads, inputs[0])
                residual.addmm_(weights[0].t(), grads)
                place = _place(grad_x, chunk)  # (H, b, n)
                if residual.data_ptr() != place.data_ptr():  # residual is a copy, not a view
                    place.copy_(residual.view(place.shape))
        if masked is not None:
            grad_x.masked_fill_(masked, 0.0)
        grads = [total.to(own) for total, own in zip(totals, dtypes, strict=True)]
        grad_x = _put(grad_x, cells, ctx.shape)
        return grad_x, grad_x, None, None, *grads


def _open_cells(x: Tensor, masked: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the indices of the T * S cells to compute (None: all) and their mask (None: none)."""
    rows, keys = x.shape[2:]
    # Not on a GPU, where the host would have to wait for the number of cells.
    if masked is None or x.device.type != "cpu" or rows == 1:
        return None, masked
    if masked.dim() < 2 or masked.size(-2) == 1:  # padding, which differs by sentence
        return None, masked
    masked = masked[(None,) * (4 - masked.dim())].expand(-1, -1, rows, keys)
    cells = masked.flatten(0, 1).all(dim=0).logical_not().flatten().nonzero().squeeze(1)
    if len(cells) > WORTH_LEAVING_OUT * rows * keys:
        return None, masked
    return cells, None if masked.size(0) == masked.size(1) == 1 else _take(masked, cells)


def _take(x: Tensor, cells: Tensor | None) -> Tensor:
    """Take cells: (B, H, T, S) -> (B, H, 1, number of cells); None takes all."""
    if cells is None:
        return x
    x = x.flatten(2)
    # Faster than index_select.
    return x.gather(2, cells.expand(*x.shape[:2], -1)).unsqueeze(2)


def _put(x: Tensor, cells: Tensor | None, shape: torch.Size) -> Tensor:
    """Undo :func:`_take`, with 0 at the other cells."""
    if cells is None:
        return x
    everywhere, x = x.new_zeros(shape).flatten(2), x.squeeze(2)
    return everywhere.scatter_(2, cells.expand_as(x), x).view(shape)


class _Buffers:
    """Tensors for hidden layers, reused for every chunk."""

    def __init__(self, count: int, rows: int, x: Tensor):
        limit = CPU_CHUNK if x.device.type == "cpu" else DEVICE_CHUNK
        pairs = x.size(0) * x.size(2) * x.size(3)
        self.rows = rows
        self.columns = max(1, min(limit // rows, pairs))  # pairs of a chunk
        dtype = _layers_dtype(x)
        self.tensors = [x.new_empty(rows * self.columns, dtype=dtype) for _ in range(count)]

    def take(self, index: int, columns: int) -> Tensor:
        """Return the first part of a buffer as (rows, columns)."""
        return self.tensors[index][: self.rows * columns].view(self.rows, columns)


def _layers_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of the layers: float32 for half precision on a CPU, else that of ``x``."""
    return torch.float32 if x.device.type == "cpu" and x.dtype.itemsize < 4 else x.dtype


def _hidden(weight: Tensor, bias: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Compute a hidden layer into ``out``."""
    torch.addmm(bias.unsqueeze(1), weight, x, out=out)  # the bias is the same for all pairs
    return F.leaky_relu_(out, NEGATIVE_SLOPE)


def _accumulate(weight: Tensor, bias: Tensor, grads: Tensor, inputs: Tensor) -> None:
    """Add a chunk's gradients to those of a layer's weight and bias."""
    if weight.dtype == grads.dtype:
        weight.addmm_(grads, inputs.t())
    else:
        weight.add_(torch.mm(grads, inputs.t()))
    bias.add_(grads.sum(dim=1, dtype=bias.dtype))


def _chunks(x: Tensor, columns: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices over the batch and over T * S with up to ``columns`` pairs each."""
    bsz, pairs = x.size(0), x.size(2) * x.size(3)
    if pairs == 0:
        return
    sentences = max(1, columns // pairs)
    step = -(-pairs // -(-pairs // columns))  # equal sizes, as small chunks are slow
    for b in range(0, bsz, sentences):
        for start in range(0, pairs, step):
            yield slice(b, b + sentences), slice(start, start + step)


def _place(x: Tensor, chunk: tuple[slice, slice]) -> Tensor:
    """Return a view of b sentences and n cells of a contiguous (B, H, T, S), as (H, b, n)."""
    batch, cells = chunk
    return x.flatten(2)[batch, :, cells].transpose(0, 1)


def _columns(x: Tensor, chunk: tuple[slice, slice]) -> Tensor:
    """Return :func:`_place` as a matrix (H, b * n): a view if the layout allows."""
    return _place(x, chunk).flatten(1)
