"""Drophead: whole heads zeroed at random in training (Yun et al. 2021)."""

from dataclasses import dataclass

from torch import Tensor, nn

from diverse_mha.attention.registries import DROPHEAD
from diverse_mha.common.options import RATE, Method, Place, option


@dataclass
class DropheadOptions:
    """Options of every method."""

    drophead: float = option(
        0.0,
        "probability that a head's output is zeroed in training, for each sentence and head; the "
        "others are scaled up (Yun et al. 2021: 0.1)",
        legal=RATE,
    )


def drop_heads(outputs: Tensor, rate: float) -> Tensor:
    """Zero each head of each sentence with probability ``rate`` and scale up the others.

    Yun et al. 2021, section 4.3: heads are dropped independently, at a constant rate gamma. The
    kept ones are multiplied by 1 / (1 - gamma), as in dropout; the paper does not say how it
    scales. A sentence may lose all heads.

    Args:
        outputs: (B, H, T, D), the output of each head; any floating-point dtype.
        rate: gamma, in [0, 1).

    Returns:
        (B, H, T, D). The choice is drawn from the device's default generator.
    """
    kept = outputs.new_empty(outputs.size(0), outputs.size(1), 1, 1).bernoulli_(1.0 - rate)
    return outputs * kept.div_(1.0 - rate)


class DropHeads(nn.Module):
    """:func:`drop_heads` as a module, called in training only."""

    def __init__(self, rate: float):
        super().__init__()
        RATE.check("rate", rate)
        self.rate = rate

    def forward(self, outputs: Tensor) -> Tensor:
        """Drop heads of (B, H, T, D)."""
        return drop_heads(outputs, self.rate)

    def extra_repr(self) -> str:
        """Describe the module for ``print(model)``."""
        return f"rate={self.rate}"


def _build(options: DropheadOptions, place: Place) -> DropHeads | None:
    return DropHeads(options.drophead) if options.drophead else None


DROPHEAD.register(
    Method(
        "independent",
        "independent (kept heads are divided by 1 - rate)",
        _build,
        DropheadOptions,
        stock=True,
    )
)
