"""The loss terms in any combination: their options, schedule, sum and values."""

from collections.abc import Collection, Mapping
from dataclasses import Field, astuple, dataclass, fields
from typing import Any, NamedTuple

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import Option, UserError, listed
from diverse_mha.common.options import option, read_options, refuse_idle
from diverse_mha.common.ranges import ANY_COUNT
from diverse_mha.methods.term import TERMS, Term, total


@dataclass
class Schedule:
    """Options of the schedule, and its factor on the weights of all terms.

    Start terms late if a model fails to train with them from the first update, as post-norm models
    with disagreement at weight 1.0 do. End them to let the last updates fit the task alone.

    The factor after n updates, with s = start, w = warm-up and e = end::

        0                     n < s
        (n - s + 1) / w       s <= n < s + w
        1                     n >= s + w, if there is no end
        (e - n) / (e - s - w) n >= s + w, if there is an end; 0 from n = e on

    Example:
        >>> schedule = Schedule(diversity_start=100, diversity_warmup_updates=50)
        >>> [schedule.factor(updates) for updates in (0, 124, 1000)]
        [0.0, 0.5, 1.0]
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
    def from_config(cls, cfg: Any) -> "Schedule":
        """Read the schedule from the options of ``DiversityConfig``."""
        schedule = read_options(cls, cfg)
        start, warmup, end = astuple(schedule)
        if end and end <= start + warmup:
            raise UserError(
                Option("diversity_end", end), ": must be above ", Option("diversity_start", start),
                " plus ", Option("diversity_warmup_updates", warmup),
            )  # fmt: skip
        return schedule

    def __bool__(self) -> bool:
        """Return False if the factor is always 1."""
        return any(astuple(self))

    def factor(self, num_updates: int) -> float:
        """Return the factor, in [0, 1], for the next update after ``num_updates`` updates."""
        start, warmup, end = astuple(self)
        if num_updates < start:
            return 0.0
        if num_updates < start + warmup:
            return (num_updates - start + 1) / warmup
        if not end:
            return 1.0
        return max(0.0, (end - num_updates) / (end - start - warmup))


class Measured(NamedTuple):
    """One value of a term in one batch.

    Attributes:
        value: unweighted; the mean over the layers of a component, summed over components; 0 if
            layer drop left no layer.
        loss: weighted; to be added to the mean loss.
        parts: the summands of ``value`` by component, if the term acts on several.
    """

    value: Tensor | float
    loss: Tensor | float
    parts: dict[str, Tensor | float]


def logged_values(measured: Mapping[str, Measured]) -> dict[str, Tensor | float]:
    """Return the values in the log by name: ``cka``, and its parts, such as ``cka_encoder``."""
    values = {}
    for name, term in measured.items():
        values[name] = term.value
        values |= {f"{name}_{component}": part for component, part in term.parts.items()}
    return values


class DiversityTerms:
    """The terms of a loss, in any combination."""

    terms: list[Term[Any]]
    schedule: Schedule

    def __init__(self, terms: list[Term[Any]], schedule: Schedule):
        self.terms, self.schedule = terms, schedule

    @classmethod
    def from_config(cls, cfg: Any) -> "DiversityTerms":
        """Read the terms from the options of a criterion, a ``DiversityConfig``."""
        read = [method.from_config(cfg) for method in TERMS]
        terms = [term for term in read if term is not None]
        if not any(term.weight for term in terms):
            refuse_idle(cfg, fields(Schedule), "without a term of a weight above 0; name one")
        return cls(terms, Schedule.from_config(cfg))

    def factor(self, model: Any) -> float:
        """Return the schedule's factor on all weights in a training step."""
        return self.schedule.factor(model.num_updates) if self.schedule else 1.0

    def check_components(self, heads: dict[str, int], more_heads: str = "") -> None:
        """Raise an error for components that a model lacks, or that have only one head to compare.

        Args:
            heads: number of heads by component.
            more_heads: cure for a single head, in the message; default: fairseq's option.
        """
        for term in self.terms:
            if not heads:
                raise UserError(term.option, ": the model has no layers with heads; add some")
            for name in term.components or heads:
                if name not in heads:
                    raise UserError(
                        Option(term.where() or term.switch(), ",".join(term.components)),
                        f": the model has no {name!r} attention; choose from {', '.join(heads)}",
                    )
                if term.compares and heads[name] == 1:
                    side = "encoder" if name == "encoder" else "decoder"
                    raise UserError(
                        term.option,
                        f": heads are compared with each other, and the model's {name} attention "
                        "has one head; give ",
                        more_heads or Option(f"{side}_attention_heads", 2),
                        "" if more_heads else " or more",
                        ", or other components",
                    )

    def risks(self, heads: Mapping[str, int], post_norm: Collection[str]) -> list[str]:
        """Return what is known to go wrong with such a model if the terms start at once.

        Args:
            heads: number of heads by component.
            post_norm: components whose layers are normalised after each block.
        """
        if self.schedule.diversity_start:
            return []
        return [risk for term in self.terms if (risk := term.risk(heads, post_norm))]

    @property
    def options(self) -> list[Option | str]:
        """The options that switched terms on, as parts of an error."""
        return listed((term.option for term in self.terms), "and")

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the head states that the terms need; empty if no term is on."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.wanted))

    def wanted_of(self, components: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the names of the needed head states, for each component that needs any."""
        asked = {
            component: [
                name
                for term in self.terms
                if component in (term.components or components)
                for name in term.wanted
            ]
            for component in components
        }
        return {c: tuple(dict.fromkeys(names)) for c, names in asked.items() if names}

    def measure(
        self,
        head_states: dict[str, list[HeadStates]],
        sample_size: float | Tensor,
        training: bool = False,
    ) -> dict[str, Measured]:
        """Compute every active term.

        Args:
            head_states: records per component, as the model returns them.
            sample_size: divisor of the batch's loss, such as its number of target tokens.
            training: True if samples may be drawn at random.

        Returns:
            Values by logged name, such as ``disagreement_output``.
        """
        measured = {}
        for term in self.terms:
            for name, values in term.values(head_states, training).items():
                # All workers must log the same names, also if layer drop left no layer.
                parts = dict.fromkeys(term.components or head_states, 0.0)
                parts |= {c: total(layers) / len(layers) for c, layers in values.items()}
                value, loss = sum(parts.values(), start=0.0), term.loss(values, sample_size)
                measured[name] = Measured(value, loss, parts if len(parts) > 1 else {})
        return measured


def diversity_options() -> list[Field[Any]]:
    """Return the options of every criterion: those of the terms and of the schedule."""
    return [*TERMS.options(), *fields(Schedule)]
