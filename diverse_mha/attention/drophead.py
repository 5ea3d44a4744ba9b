"""Drophead: whole heads zeroed at random in training."""

from dataclasses import dataclass

from torch import Tensor, nn

from diverse_mha.common.methods import Method, Place, Seam
from diverse_mha.common.options import RATE, option


@dataclass
class DropheadOptions:
    """The rate, whatever the method."""

    drophead: float = option(
        0.0,
        "probability that the output of a head is zeroed in training, drawn for each sentence "
        "and head; the others are scaled up (Yun et al. 2021, whose rate is 0.1)",
        legal=RATE,
    )


def drop_heads(outputs: Tensor, rate: float) -> Tensor:
    """Zero each head of each sentence with probability ``rate`` and scale up the others.

    Yun et al. 2021, section 4.3: every head is dropped independently, at a constant rate
    gamma. The kept ones are multiplied by 1 / (1 - gamma), as dropout does, so that the
    expectation is the input and nothing need be done at evaluation; the paper does not say
    how it scales. (Zhou et al. 2020 scale by the number of heads kept, and schedule the rate.)
    A sentence may lose all of its heads.

    Args:
        outputs: (B, H, T, D), the output of each head; any floating-point dtype.
        rate: gamma, in [0, 1).

    Returns:
        (B, H, T, D), with the strides of ``outputs``: one pass over it. The choice is drawn
        from the device's default generator.
    """
    kept = outputs.new_empty(outputs.size(0), outputs.size(1), 1, 1).bernoulli_(1.0 - rate)
    return outputs * kept.div_(1.0 - rate)


class DropHeads(nn.Module):
    """:func:`drop_heads` as a module, called in training only.

    Args:
        rate: gamma, in [0, 1).
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, outputs: Tensor) -> Tensor:
        """Drop heads of (B, H, T, D)."""
        return drop_heads(outputs, self.rate)

    def extra_repr(self) -> str:
        """The rate, for ``print(model)``."""
        return f"rate={self.rate}"


def as_module(drophead: float | nn.Module | None) -> nn.Module | None:
    """Return the module that drops heads, or None if none is dropped.

    Raises:
        ValueError: for a rate that is not in [0, 1).
    """
    if drophead is None or isinstance(drophead, nn.Module):
        return drophead
    RATE.check("drophead", drophead)
    return DropHeads(drophead) if drophead else None


def _build(options: DropheadOptions, place: Place) -> nn.Module | None:
    return as_module(options.drophead)


DROPHEAD = Seam("drophead_method", "independent", "how --drophead drops heads")
"""Builders return None, or a module from the outputs of the heads (B, H, T, D) to the same with
some of them zeroed, called in training only; one with ``set_num_updates`` is told by fairseq."""

DROPHEAD.register(
    Method(
        "independent",
        "independent (each by itself, those kept divided by 1 - rate)",
        _build,
        DropheadOptions,
        stock=True,
    )
)
