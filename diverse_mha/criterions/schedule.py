"""The updates in which the terms count."""

from dataclasses import astuple, dataclass

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import ANY_COUNT, option, read_options


@dataclass
class Schedule:
    """Options of the schedule, and its factor on the weights of all terms.

    By the number of updates done, n; with s = start, w = warm-up and e = end::

        0                     n < s
        (n - s + 1) / w       s <= n < s + w
        1                     from there on, without an end
        (e - n) / (e - s - w) from there on, with one; 0 from n = e on
    """

    diversity_start: int = option(
        0,
        "update at which the terms start; before it they are not computed in training",
        legal=ANY_COUNT,
    )
    diversity_warmup_updates: int = option(
        0,
        "number of updates, from --diversity-start, over which the weights rise to their values",
        legal=ANY_COUNT,
    )
    diversity_end: int = option(
        0,
        "update at which the weights reach 0, after a linear fall from the end of the warm-up; 0: "
        "never",
        legal=ANY_COUNT,
    )

    @classmethod
    def from_config(cls, cfg) -> "Schedule":
        """Read the schedule from the options of ``DiversityConfig``."""
        schedule = read_options(cls, cfg)
        start, warmup, end = astuple(schedule)
        if end and end <= start + warmup:
            raise OptionError(
                f"--diversity-end {end}: must be above --diversity-start {start} plus "
                f"--diversity-warmup-updates {warmup}"
            )
        return schedule

    def __bool__(self) -> bool:
        """Return False if the factor is always 1."""
        return any(astuple(self))

    def factor(self, num_updates: int) -> float:
        """Return the factor, in [0, 1], for the update that follows ``num_updates`` others."""
        start, warmup, end = astuple(self)
        if num_updates < start:
            return 0.0
        if num_updates < start + warmup:
            return (num_updates - start + 1) / warmup
        if not end:
            return 1.0
        return max(0.0, (end - num_updates) / (end - start - warmup))
