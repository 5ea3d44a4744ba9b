"""All methods that the options switch on."""

from collections.abc import Collection

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.terms.base import Term, check_components
from diverse_mha.criterions.terms.disagreement import Disagreement
from diverse_mha.criterions.terms.hsic import HSIC
from diverse_mha.criterions.terms.orthogonality import Orthogonality

METHODS = (Disagreement, HSIC, Orthogonality)


class DiversityTerms:
    """The terms of a loss, in any combination.

    Args:
        terms: the methods that are on.
    """

    def __init__(self, terms: list[Term]):
        self.terms = terms

    @classmethod
    def from_config(cls, cfg: DiversityConfig) -> "DiversityTerms":
        """Read the terms off the options of a criterion.

        Raises:
            OptionError: for an option that is impossible or has no effect.
        """
        terms = [method.from_config(cfg) for method in METHODS]
        return cls([term for term in terms if term is not None])

    def check_components(self, there: Collection[str]) -> None:
        """Refuse components that a model does not have.

        Args:
            there: those of the model.

        Raises:
            OptionError: naming the option, its value and what there is.
        """
        for term in self.terms:
            check_components(term.on_option, term.components, there)

    @property
    def options(self) -> str:
        """The options that switched terms on, for messages."""
        return " and ".join(term.option for term in self.terms)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the head states that the terms need; empty if no term is on."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.wanted))

    def values(
        self, head_states: dict[str, list[HeadStates]], training: bool = False
    ) -> dict[str, Tensor]:
        """Compute every active term.

        Args:
            head_states: records per component, as the model returns them.
            training: whether samples may be drawn at random.

        Returns:
            Scalars under the names they are logged by, for example
            ``disagreement_output``: D, at most 0, higher = more diverse.

        Raises:
            OptionError: if a named component is not part of the model.
        """
        values = {}
        for term in self.terms:
            values.update(term.values(head_states, training))
        return values

    def loss(self, values: dict[str, Tensor]) -> Tensor:
        """Weigh the values into one number to minimise."""
        return sum(term.weight * values[name] for term in self.terms for name in term.names)
