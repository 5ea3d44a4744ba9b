"""``python -m benchmarks.optimiser``: a step of fused_adam beside one of fairseq's Adam."""

import time
from statistics import median

import torch
from fairseq.optim.adam import Adam

from diverse_mha.optim.fused_adam import FusedAdam

ROUNDS = 20
SIZES = {"multi30k_small": (128, 256, 4, 7952), "Base": (512, 2048, 6, 32000)}


def shapes(width: int, inner: int, layers: int, words: int) -> list[tuple[int, ...]]:
    """Return the shapes of a Transformer's parameters, with one table of words."""
    attention = [(width, width), (width,)] * 4
    rest = [(inner, width), (inner,), (width, inner), (width,)]
    encoder = attention + rest + [(width,)] * 4
    decoder = attention * 2 + rest + [(width,)] * 6
    return [(words, width)] + (encoder + decoder) * layers


def main() -> None:
    """Print the processor time of both, in interleaved rounds on one thread, and their ratio."""
    torch.set_num_threads(1)
    for name, size in SIZES.items():
        optimizers = []
        for kind in (Adam, FusedAdam):
            parameters = [torch.randn(shape, requires_grad=True) for shape in shapes(*size)]
            for one in parameters:
                one.grad = torch.randn_like(one)
            optimizers.append(kind(parameters, lr=1e-3, betas=(0.9, 0.98)))
            optimizers[-1].step()  # makes its averages
        rounds = []
        for _ in range(ROUNDS):
            times = []
            for optimizer in optimizers:
                begun = time.process_time()
                optimizer.step()
                times.append(1e3 * (time.process_time() - begun))
            rounds.append(times)
        stock, fused = map(median, zip(*rounds, strict=True))
        ratios = sorted(one / other for one, other in rounds)
        count = sum(one.numel() for one in parameters) / 1e6
        print(
            f"{name}, {count:.1f} million parameters: fairseq {stock:.1f} ms, fused {fused:.1f} "
            f"ms, ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
