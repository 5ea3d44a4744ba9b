"""Disagreement between heads (Li et al. 2018) as a part of the loss."""

from collections.abc import Callable

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.criterions.config import (
    COMPONENTS,
    DISAGREEMENT_TERMS,
    check_weight,
    parse_names,
    refuse_idle,
)
from diverse_mha.criterions.terms.base import Term, sum_over_components
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


class Disagreement(Term):
    """D of the chosen kinds, at most 0, higher = more diverse; maximised.

    Args:
        kinds: some of ``DISAGREEMENT_TERMS``.
        components: names of components, or none for all that the model has.
        weight: lambda, of each kind.
    """

    option = "--disagreement"
    on_option = "--disagreement-on"

    def __init__(self, kinds: tuple[str, ...], components: tuple[str, ...], weight: float):
        self.kinds, self.components = kinds, components
        self.names = tuple(f"disagreement_{kind}" for kind in kinds)
        self.wanted = tuple(_DISAGREEMENT[kind][0] for kind in kinds)
        self.weight = -weight

    @classmethod
    def from_config(cls, cfg):
        """Read the method off the options; see ``Term.from_config``."""
        kinds = parse_names(cls.option, cfg.disagreement, DISAGREEMENT_TERMS)
        components = parse_names(cls.on_option, cfg.disagreement_on, COMPONENTS)
        weight = check_weight("--disagreement-weight", cfg.disagreement_weight)
        if not kinds:
            idle = ("disagreement_on", "disagreement_weight")
            refuse_idle(cfg, idle, "without --disagreement; name a term")
            return None
        return cls(kinds, components, weight)

    def values(self, head_states, training):
        """Compute D of each kind; see ``Term.values``."""
        return {
            name: sum_over_components(
                self.on_option, self.components, head_states, self._of_layers(kind)
            )
            for name, kind in zip(self.names, self.kinds, strict=True)
        }

    @staticmethod
    def _of_layers(kind: str):
        of_layer = _DISAGREEMENT[kind][1]
        return lambda layers: [of_layer(states) for states in layers]
