"""Drophead: whole heads zeroed at random in training, at a constant or scheduled rate."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from diverse_mha.attention.seams import DROPHEAD
from diverse_mha.common.errors import OptionError
from diverse_mha.common.methods import Method, Place
from diverse_mha.common.options import ANY_COUNT, RATE, flag, option


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


@dataclass
class ScheduledOptions(DropheadOptions):
    """Options of the schedule."""

    drophead_fall_updates: int = option(
        0,
        "scheduled Drophead: updates over which the rate falls from --drophead to 0",
        legal=ANY_COUNT,
    )
    drophead_rise_updates: int = option(
        0,
        "scheduled Drophead: updates after the fall, over which the rate rises to --drophead again",
        legal=ANY_COUNT,
    )


class ScheduledDropHeads(nn.Module):
    """Zeroes heads at a rate that depends on the update, and scales up by H over those kept.

    After Zhou et al. 2020 (docs/equations.md): of the H heads of a sentence K are kept, and their
    outputs are multiplied by H / K. The rate follows a V, with p the full rate, f and r the lengths
    of fall and rise, n the number of updates done::

        p (1 - n / f)     n < f
        p (n - f) / r     f <= n < f + r
        p                 from there on

    Args:
        rate: p, in [0, 1).
        fall: f, 0 or more.
        rise: r, 0 or more.
    """

    def __init__(self, rate: float, fall: int = 0, rise: int = 0):
        super().__init__()
        RATE.check("rate", rate)
        ANY_COUNT.check("fall", fall)
        ANY_COUNT.check("rise", rise)
        self.full, self.fall, self.rise = rate, fall, rise
        # A tensor, so that a new rate compiles nothing.
        self.register_buffer("rate", torch.tensor(rate), persistent=False)
        self.set_num_updates(0)

    def set_num_updates(self, num_updates: int) -> None:
        """Set the rate; fairseq calls it before every update and when a checkpoint is loaded."""
        share, rising = 1.0, num_updates - self.fall
        if rising < 0:
            share = -rising / self.fall
        elif rising < self.rise:
            share = rising / self.rise
        self.rate.fill_(self.full * share)

    def forward(self, outputs: Tensor) -> Tensor:
        """Drop heads of (B, H, T, D), for each sentence separately."""
        draws = torch.rand(outputs.shape[:2], device=outputs.device)[:, :, None, None]
        kept = (draws >= self.rate).type_as(outputs)  # (B, H, 1, 1)
        return outputs * (kept * (kept.size(1) / kept.sum(dim=1, keepdim=True).clamp_min(1)))

    def extra_repr(self) -> str:
        """Describe the module for ``print(model)``."""
        return f"rate={self.full}, fall={self.fall}, rise={self.rise}"


def _check(options: ScheduledOptions, place: Place) -> None:
    if not options.drophead:
        method = f"{flag(DROPHEAD.name)} scheduled"
        raise OptionError(f"{method} has no effect with --drophead 0; give a rate above 0")


def _build_scheduled(options: ScheduledOptions, place: Place) -> ScheduledDropHeads:
    lengths = options.drophead_fall_updates, options.drophead_rise_updates
    return ScheduledDropHeads(options.drophead, *lengths)


_TEXT = (
    "scheduled (the rate falls and rises; kept heads are multiplied by H over their number, Zhou "
    "et al. 2020)"
)
DROPHEAD.register(
    Method("scheduled", _TEXT, _build_scheduled, ScheduledOptions, _check, stock=True)
)
