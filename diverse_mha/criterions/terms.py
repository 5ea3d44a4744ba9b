"""From records of heads to loss terms."""

from collections.abc import Callable

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.criterions.config import (
    COMPONENTS,
    DISAGREEMENT_TERMS,
    DiversityConfig,
    check_weight,
    parse_names,
)
from diverse_mha.errors import OptionError
from diverse_mha.regularizers import (
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)


def _subspace(states: HeadStates) -> Tensor:
    return subspace_disagreement(states.values, states.key_padding_mask)


def _position(states: HeadStates) -> Tensor:
    return position_disagreement(states.weights, states.query_padding_mask, states.key_padding_mask)


def _output(states: HeadStates) -> Tensor:
    return output_disagreement(states.outputs, states.query_padding_mask)


# Name of the term: the state it needs, and its value for one layer.
_DISAGREEMENT: dict[str, tuple[str, Callable[[HeadStates], Tensor]]] = {
    "subspace": ("values", _subspace),
    "position": ("weights", _position),
    "output": ("outputs", _output),
}


class DiversityTerms:
    """The terms that the options switch on.

    A term's value is the mean over the layers of a component, summed over the
    components, each layer's value being a mean over real positions.

    Args:
        disagreement: comma list of terms, or None.
        disagreement_on: comma list of components, or None for all the model has.
        disagreement_weight: weight of each disagreement term.

    Raises:
        OptionError: for an unknown name or an impossible weight.
    """

    def __init__(
        self,
        disagreement: str | None = None,
        disagreement_on: str | None = None,
        disagreement_weight: float = 1.0,
    ):
        self.terms = parse_names("--disagreement", disagreement, DISAGREEMENT_TERMS)
        self.components = parse_names("--disagreement-on", disagreement_on, COMPONENTS)
        if self.components and not self.terms:
            raise OptionError(
                f"--disagreement-on {disagreement_on} has no effect without --disagreement; "
                "name a term"
            )
        self.weight = check_weight("--disagreement-weight", disagreement_weight)
        if self.weight != 1.0 and not self.terms:
            raise OptionError(
                f"--disagreement-weight {disagreement_weight} has no effect without "
                "--disagreement; name a term"
            )

    @classmethod
    def from_config(cls, cfg: DiversityConfig) -> "DiversityTerms":
        """Read the terms off the options of a criterion."""
        return cls(cfg.disagreement, cfg.disagreement_on, cfg.disagreement_weight)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the head states that the terms need; empty if no term is on."""
        return tuple(_DISAGREEMENT[term][0] for term in self.terms)

    def values(self, head_states: dict[str, list[HeadStates]]) -> dict[str, Tensor]:
        """Compute every active term.

        Args:
            head_states: records per component, as the model returns them.

        Returns:
            Scalars under the names they are logged by, for example
            ``disagreement_output``: D, at most 0, higher = more diverse.

        Raises:
            OptionError: if a named component is not part of the model.
        """
        return {
            f"disagreement_{term}": sum(
                _mean([_DISAGREEMENT[term][1](states) for states in layers])
                for layers in self._layers(head_states)
            )
            for term in self.terms
        }

    def loss(self, values: dict[str, Tensor]) -> Tensor:
        """Weigh the terms into one number to minimise: disagreement enters negated."""
        return -self.weight * sum(values.values())

    def _layers(self, head_states: dict[str, list[HeadStates]]) -> list[list[HeadStates]]:
        for name in self.components:
            if name not in head_states:
                raise OptionError(
                    f"--disagreement-on {','.join(self.components)}: the model has no {name!r} "
                    f"attention; choose from {', '.join(head_states)}"
                )
        chosen = self.components or tuple(head_states)
        # Layer drop may have left a component without any layer in this pass.
        return [head_states[name] for name in chosen if head_states[name]]


def _mean(values: list[Tensor]) -> Tensor:
    return sum(values) / len(values)
