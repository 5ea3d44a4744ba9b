"""Time and memory of cascaded logits: ``python -m diverse_mha.benchmark.cascade``.

A training step through layers of attention whose logits cascade, forward and backward, with
causal mask, padding and noise. ``fused`` is the cascade as it trains; ``straight`` is the same
module with the transcription of Zheng et al. 2021, which permutes to (B, T, S, H) and applies
``nn.Linear``. The forms take turns within each round; the ratio is the median over the rounds
of the ratio within one. Peak memory is measured apart, one fresh process a form. Figures are
refused if the two forms do not agree.
"""

import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.cascade import build_cascade
from diverse_mha.attention.masks import merge_bias
from diverse_mha.benchmark.memory import peak_beside
from diverse_mha.benchmark.options import add_numbers
from diverse_mha.benchmark.rounds import clock_for, run_rounds
from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli
from diverse_mha.models.attention import DiverseAttention

FORMS = ("straight", "fused")
PARTS = ("network", "attention", "module")
HEAD_DIM = 64


def step_of(
    part: str,
    form: str,
    shape: tuple[int, int, int],
    layers: int,
    noise: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Callable[[], tuple[Tensor, ...]]:
    """One forward and backward pass through the layers.

    Args:
        part: ``"network"``: logits to logits. ``"attention"``: also q.k, softmax and the sum
            over the values, from given queries, keys and values. ``"module"``: whole attention
            modules, projections included, one after another with residual links.
        form: one of ``FORMS``.
        shape: B, H, and T = S.
        layers: number of layers; the first one has only noise.
        noise: standard deviation of the noise.
        dtype: of everything.

    Returns:
        A function without arguments that returns the gradients.
    """
    if part == "module":
        return _module_step(form, shape, layers, noise, dtype)
    torch.manual_seed(1)
    bsz, num_heads, length = shape
    kinds = ["none"] + ["mlp"] * (layers - 1)
    cascades = [build_cascade(k, num_heads, noise=noise, fused=form == "fused") for k in kinds]
    cascades = [cascade and cascade.to(dtype) for cascade in cascades]
    parameters = [p for cascade in cascades if cascade is not None for p in cascade.parameters()]
    masked = _future(length) | _padding(bsz, length)[:, None, None]  # (B, 1, T, S)
    if part == "network":
        leaves = [torch.randn(bsz, num_heads, length, length) for _ in range(layers)]
    else:
        size = (layers, 3, bsz, num_heads, length, HEAD_DIM)
        leaves = [x for layer in torch.randn(size) for x in layer]
    leaves = [x.to(dtype).requires_grad_() for x in leaves]

    def cascaded(logits: Tensor, previous: Tensor | None, layer: int) -> Tensor:
        cascade = cascades[layer]
        return logits if cascade is None else cascade(logits, previous, masked)

    def network() -> Tensor:
        previous = None
        for layer, logits in enumerate(leaves):
            previous = cascaded(logits, previous, layer)
        return previous

    def attention() -> Tensor:
        previous, total = None, 0.0
        for layer in range(layers):
            q, k, v = leaves[3 * layer : 3 * layer + 3]
            logits = torch.matmul(q * HEAD_DIM**-0.5, k.transpose(-1, -2))  # (B, H, T, S)
            previous = cascaded(logits, previous, layer)
            lowest = torch.finfo(logits.dtype).min
            weights = F.softmax(previous.masked_fill(masked, lowest), dim=-1)
            total = total + torch.matmul(weights, v)  # (B, H, T, D)
        return total

    forward = {"network": network, "attention": attention}[part]
    inputs = [*leaves, *parameters]
    grad = torch.randn(bsz, num_heads, length, length if part == "network" else HEAD_DIM)
    grad = grad.to(dtype)
    return lambda: torch.autograd.grad(forward(), inputs, grad)


def _module_step(
    form: str, shape: tuple[int, int, int], layers: int, noise: float, dtype: torch.dtype
) -> Callable[[], tuple[Tensor, ...]]:
    torch.manual_seed(1)
    bsz, num_heads, length = shape
    width = num_heads * HEAD_DIM
    modules = nn.ModuleList(
        DiverseAttention(
            width,
            num_heads,
            self_attention=True,
            cascade=build_cascade(
                "mlp" if layer else "none", num_heads, noise=noise, fused=form == "fused"
            ),
            carry_logits=True,
        )
        for layer in range(layers)
    ).to(dtype)
    bias = merge_bias(_future(length), _padding(bsz, length), dtype)
    x = torch.randn(bsz, length, width, dtype=dtype, requires_grad=True)
    grad = torch.randn(bsz, length, width, dtype=dtype)

    def forward() -> Tensor:
        hidden, previous = x, None
        for module in modules:
            attended = module.attend(hidden, None, bias=bias, previous_logits=previous)
            hidden, previous = hidden + attended.output, attended.logits
        return hidden

    inputs = [x, *modules.parameters()]
    return lambda: torch.autograd.grad(forward(), inputs, grad)


def _future(length: int) -> Tensor:
    """(T, S), True = a key after the query."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def _padding(bsz: int, length: int) -> Tensor:
    """(B, S), True = padding, up to a quarter of the keys."""
    return torch.arange(length) >= length - torch.arange(bsz).unsqueeze(1) % (length // 4 + 1)


def check(part: str, shape: tuple[int, int, int], layers: int) -> None:
    """Compare the gradients of the two forms on a batch of one, without noise.

    Raises:
        AssertionError: if they differ by more than rounding.
    """
    small = (1, *shape[1:])
    results = [step_of(part, form, small, layers, 0.0, torch.float64)() for form in FORMS]
    # Of the largest gradient of all: that of the last bias is zero but for rounding.
    atol = 1e-9 * max(float(grad.abs().max()) for grad in results[0])
    for straight, fused in zip(*results, strict=True):
        torch.testing.assert_close(fused, straight, rtol=1e-9, atol=atol)


def peak_memory(arguments: tuple, threads: int) -> float:
    """Memory in MiB that a step needs at most; ``arguments`` are those of :func:`step_of`."""
    part, form, shape, layers = arguments
    return peak_beside(step_of, arguments, (part, form, (1, *shape[1:]), layers), threads)


def main() -> None:
    """Print one table row per part and form."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add_numbers(
        parser,
        {
            "batch": (8, "B"),
            "heads": (8, "H"),
            "length": (100, "T and S"),
            "layers": (6, "layers of attention"),
            "rounds": (15, "rounds that count"),
            "threads": (torch.get_num_threads(), "threads"),
        },
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    shape = (args.batch, args.heads, args.length)

    print(f"torch {torch.__version__}, {args.threads} threads, forward and backward")
    print(f"B {args.batch}, H {args.heads}, T = S = {args.length}, {args.layers} layers")
    print(f"{'part':<11}{'form':<10}{'ms':>8}{'times as fast':>15}{'MiB':>8}{'of straight':>13}")
    for part in args.parts:
        check(part, shape, args.layers)
        calls = {form: (part, form, shape, args.layers) for form in FORMS}
        memory = {form: peak_memory(call, args.threads) for form, call in calls.items()}
        steps = {form: step_of(*call) for form, call in calls.items()}
        seconds = run_rounds(
            {form: lambda batch, step=step: step() and None for form, step in steps.items()},
            [{}] * (args.rounds + 2),
            2,
            clock_for(torch.device("cpu")),
            lambda form, outcome: None,
        )
        for form in FORMS:
            pairs = zip(seconds["straight"], seconds[form], strict=True)
            speed = statistics.median(straight / own for straight, own in pairs)
            print(
                f"{part:<11}{form:<10}{1e3 * statistics.median(seconds[form]):>8.1f}{speed:>15.2f}"
                f"{memory[form]:>8.0f}{memory[form] / memory['straight']:>13.2f}",
                flush=True,
            )


if __name__ == "__main__":
    run_cli(main)
