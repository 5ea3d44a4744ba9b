"""Scheduled DropHead: a rate that falls and rises, kept heads fill in (Zhou et al. 2020)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from diverse_mha.common.errors import OptionError
from diverse_mha.common.methods import Method, Place
from diverse_mha.common.options import ANY_COUNT, RATE, flag, option

from .drophead import DROPHEAD, DropheadOptions


@dataclass
class ScheduledOptions(DropheadOptions):
    """The rate, and when it falls and rises."""

    drophead_fall_updates: int = option(
        0,
        "scheduled Drophead: number of updates in which the rate falls from --drophead to 0",
        legal=ANY_COUNT,
    )
    drophead_rise_updates: int = option(
        0,
        "scheduled Drophead: number of updates after these in which it rises to --drophead again",
        legal=ANY_COUNT,
    )


class ScheduledDropHeads(nn.Module):
    """Zeroes heads at a rate that depends on the update, and scales up by H over those kept.

    After Zhou et al. 2020 (docs/equations.md): of the H heads of a sentence K are kept, and their
    outputs are multiplied by H / K (by nothing where K = 0: all are zeroed). The rate follows a V:
    with p the full rate, f and r the lengths of fall and rise, n the number of updates done::

        p (1 - n / f)     n < f
        p (n - f) / r     f <= n < f + r
        p                 from there on

    Args:
        rate: p, in [0, 1).
        fall: f, 0 or more.
        rise: r, 0 or more.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(self, rate: float, fall: int = 0, rise: int = 0):
        super().__init__()
        RATE.check("rate", rate)
        ANY_COUNT.check("fall", fall)
        ANY_COUNT.check("rise", rise)
        self.full, self.fall, self.rise = rate, fall, rise
        # A tensor, so that compiled code need not be compiled anew for every rate; not saved.
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
        """Drop heads of (B, H, T, D), each sentence for itself; called in training only."""
        draws = torch.rand(outputs.shape[:2], device=outputs.device)[:, :, None, None]
        kept = (draws >= self.rate).type_as(outputs)  # (B, H, 1, 1)
        return outputs * (kept * (kept.size(1) / kept.sum(dim=1, keepdim=True).clamp_min(1)))

    def extra_repr(self) -> str:
        """The schedule, for ``print(model)``."""
        return f"rate={self.full}, fall={self.fall}, rise={self.rise}"


def _check(options: ScheduledOptions, place: Place) -> None:
    if not options.drophead:
        method = f"{flag(DROPHEAD.name)} scheduled"
        raise OptionError(f"{method} has no effect with --drophead 0; give a rate above 0")


def _build(options: ScheduledOptions, place: Place) -> ScheduledDropHeads:
    lengths = options.drophead_fall_updates, options.drophead_rise_updates
    return ScheduledDropHeads(options.drophead, *lengths)


_TEXT = (
    "scheduled (at a rate that falls and rises, those kept times H over their number, Zhou et al. "
    "2020)"
)
DROPHEAD.register(Method("scheduled", _TEXT, _build, ScheduledOptions, _check, stock=True))
