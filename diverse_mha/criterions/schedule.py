"""When the terms count: from which update, how fast, and until when."""

from dataclasses import astuple, dataclass, fields

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import ANY_COUNT, flag, option, read_options, refuse_idle


@dataclass
class ScheduleOptions:
    """When the terms count."""

    diversity_start: int = option(
        0,
        "number of updates before any term counts; till then none is computed in training",
        legal=ANY_COUNT,
    )
    diversity_warmup_updates: int = option(
        0,
        "number of updates, from the start, in which the weights of all terms rise to their values",
        legal=ANY_COUNT,
    )
    diversity_end: int = option(
        0,
        "number of updates at which the weights of all terms have fallen to 0, linearly from the "
        "start and its warm-up on; 0: they stay as they are",
        legal=ANY_COUNT,
    )


@dataclass(frozen=True)
class Schedule:
    """A factor on the weights of all terms, by the number of updates done, n.

    With s = start, w = warmup and e = end::

        0                     n < s
        (n - s + 1) / w       s <= n < s + w
        1                     from there on, without an end
        (e - n) / (e - s - w) from there on, with one; 0 from n = e on

    Attributes:
        start: updates before the terms count.
        warmup: updates until they count in full.
        end: updates after which they count no more; 0 = they do not end.
    """

    start: int = 0
    warmup: int = 0
    end: int = 0

    @classmethod
    def from_config(cls, cfg, some_weight: bool) -> "Schedule":
        """Read the schedule off the options of ``DiversityConfig``.

        Args:
            cfg: the options.
            some_weight: whether any term has a weight above 0.

        Raises:
            OptionError: for a number that is impossible or has no effect.
        """
        if not some_weight:
            why = "without a term of a weight above 0; name one"
            refuse_idle(cfg, fields(ScheduleOptions), why)
        start, warmup, end = astuple(read_options(ScheduleOptions, cfg))
        if end and end <= start + warmup:
            raise OptionError(
                f"--diversity-end {end}: must be above --diversity-start {start} plus "
                f"--diversity-warmup-updates {warmup}"
            )
        return cls(start, warmup, end)

    @property
    def options(self) -> str:
        """The options given, for messages."""
        given = zip(fields(ScheduleOptions), (self.start, self.warmup, self.end), strict=True)
        return " ".join(f"{flag(option.name)} {value}" for option, value in given if value)

    def __bool__(self) -> bool:
        """Return False if the factor is always 1."""
        return bool(self.start or self.warmup or self.end)

    def factor(self, num_updates: int) -> float:
        """Return the factor, in [0, 1], for the update that follows ``num_updates`` others."""
        full = self.start + self.warmup
        if num_updates < self.start:
            return 0.0
        if num_updates < full:
            return (num_updates - self.start + 1) / self.warmup
        if not self.end:
            return 1.0
        return max(0.0, (self.end - num_updates) / (self.end - full))


def updates_done(model, options: str) -> int:
    """Return how many updates a model in training has had.

    Args:
        model: the model, or what wraps it.
        options: those that need the number, for the message.

    Raises:
        OptionError: if nobody told the model; fairseq's tasks do so in every training step.
    """
    number = getattr(model, "num_updates", None)
    if number is None:
        raise OptionError(
            f"{options}: needs the number of updates, which the model was not told; train with a "
            "task whose training step is fairseq's"
        )
    return number
