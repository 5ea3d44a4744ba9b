"""The terms that the options switch on."""

from collections.abc import Collection
from dataclasses import fields
from typing import NamedTuple

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import refuse_idle
from diverse_mha.criterions.schedule import Schedule
from diverse_mha.methods.term import TERMS, Term, total


class Measured(NamedTuple):
    """One value of a term in one batch.

    Attributes:
        value: the mean over the layers of a component, summed over components, not weighed; 0 if
            layer drop left no layer.
        loss: what it adds to the mean loss.
    """

    value: Tensor | float
    loss: Tensor | float


class DiversityTerms:
    """The terms of a loss, in any combination."""

    def __init__(self, terms: list[Term], schedule: Schedule):
        self.terms, self.schedule = terms, schedule

    @classmethod
    def from_config(cls, cfg) -> "DiversityTerms":
        """Read the terms from the options of a criterion, a ``DiversityConfig``."""
        read = [method.from_config(cfg) for method in TERMS]
        terms = [term for term in read if term is not None]
        if not any(term.weight for term in terms):
            refuse_idle(cfg, fields(Schedule), "without a term of a weight above 0; name one")
        return cls(terms, Schedule.from_config(cfg))

    def factor(self, model) -> float:
        """Return the schedule's factor on all weights in a training step."""
        return self.schedule.factor(model.num_updates) if self.schedule else 1.0

    def check_heads(self, heads: dict[str, int]) -> None:
        """Refuse components that a model lacks, or whose single head has nothing to compare."""
        for term in self.terms:
            if not heads:
                raise OptionError(f"{term.option}: the model has no layers with heads; add some")
            for name in term.components or heads:
                if name not in heads:
                    raise OptionError(
                        f"{term.on_option} {','.join(term.components)}: the model has no {name!r} "
                        f"attention; choose from {', '.join(heads)}"
                    )
                if term.compares and heads[name] == 1:
                    side = "encoder" if name == "encoder" else "decoder"
                    raise OptionError(
                        f"{term.option}: heads are compared with each other, and the model's "
                        f"{name} attention has one; give --{side}-attention-heads 2 or more, or "
                        "other components"
                    )

    @property
    def options(self) -> str:
        """The options that switched terms on, for messages."""
        return " and ".join(term.option for term in self.terms)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the head states that the terms need; empty if no term is on."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.wanted))

    def wanted_of(self, components: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the names of needed head states by component; others are not asked for any."""
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
        sample_size: float,
        training: bool = False,
    ) -> dict[str, Measured]:
        """Compute every active term.

        Args:
            head_states: records per component, as the model returns them.
            sample_size: what the loss of the batch is divided by, such as its target tokens.
            training: whether samples may be drawn at random.

        Returns:
            Values by logged name, such as ``disagreement_output``.
        """
        return {
            name: Measured(
                sum((total(layers) / len(layers) for layers in values.values()), start=0.0),
                term.loss(values, sample_size),
            )
            for term in self.terms
            for name, values in term.values(head_states, training).items()
        }
