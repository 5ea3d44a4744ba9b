"""Disagreement between heads (Li et al. 2018) as a part of the loss."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import OptionError
from diverse_mha.criterions.config import (
    DISAGREEMENT_FORMS,
    DISAGREEMENT_TERMS,
    parse_names,
    refuse_idle,
)
from diverse_mha.criterions.terms.base import Term, by_component
from diverse_mha.criterions.weights import Weights
from diverse_mha.regularizers import (
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from diverse_mha.regularizers.disagreement import FORMS, POSITION_FORMS


def _subspace(states: HeadStates, form: tuple[str, ...]) -> Tensor:
    return subspace_disagreement(states.values, states.key_padding_mask, form=form)


def _position(states: HeadStates, form: tuple[str, ...]) -> Tensor:
    masks = states.query_padding_mask, states.key_padding_mask
    return position_disagreement(states.weights, *masks, form=form)


def _output(states: HeadStates, form: tuple[str, ...]) -> Tensor:
    return output_disagreement(states.outputs, states.query_padding_mask, form=form)


class _Kind(NamedTuple):
    state: str
    of_layer: Callable[[HeadStates, tuple[str, ...]], Tensor]
    forms: tuple[str, ...]


_KINDS = {
    "subspace": _Kind("values", _subspace, FORMS),
    "position": _Kind("weights", _position, POSITION_FORMS),
    "output": _Kind("outputs", _output, FORMS),
}


class Disagreement(Term):
    """D of the chosen kinds, higher = more diverse; maximised.

    Args:
        kinds: some of ``DISAGREEMENT_TERMS``.
        components: names of components, or none for all that the model has.
        weights: lambda, of each kind.
        form: of ``regularizers.disagreement.FORMS``, which every kind must have.
    """

    option = "--disagreement"
    sign = -1

    def __init__(self, kinds, components, weights: Weights, form: tuple[str, ...] = ()):
        self.kinds, self.components = kinds, components
        self.wanted = tuple(_KINDS[kind].state for kind in kinds)
        self.weights, self.form = weights, form
        self.on_option = "--disagreement-weight" if weights.by_component else "--disagreement-on"

    @classmethod
    def from_config(cls, cfg):
        """Read the method off the options; see ``Term.from_config``."""
        kinds = parse_names(cls.option, cfg.disagreement, DISAGREEMENT_TERMS)
        weights = Weights.parse("--disagreement-weight", cfg.disagreement_weight)
        on = weights.components("--disagreement-weight", "--disagreement-on", cfg.disagreement_on)
        form = _parse_form(cfg.disagreement_form, kinds)
        if not kinds:
            idle = ("disagreement_on", "disagreement_weight", "disagreement_form")
            refuse_idle(cfg, idle, "without --disagreement; name a term")
            return None
        return cls(kinds, on, weights, form)

    def values(self, head_states, training):
        """Compute D of each kind; see ``Term.values``."""
        values = {}
        for name in self.kinds:
            kind = _KINDS[name]

            def of_component(layers: list[HeadStates], kind=kind) -> list[Tensor]:
                return [kind.of_layer(states, self.form) for states in layers]

            found = by_component(self.on_option, self.components, head_states, of_component)
            values[f"disagreement_{name}"] = found
        return values


def _parse_form(value: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Read the form; none for the printed one.

    Raises:
        OptionError: for an unknown one, two that exclude each other, or one that a kind lacks.
    """
    option = "--disagreement-form"
    form = parse_names(option, value, DISAGREEMENT_FORMS)
    if "printed" in form and len(form) > 1 or {"squared", "off-diagonal"} <= set(form):
        raise OptionError(
            f"{option} {value}: printed goes with no other form, and squared is off the diagonal "
            "by itself; leave one out"
        )
    form = tuple(name for name in form if name != "printed")
    for kind in kinds:
        for name in form:
            if name not in _KINDS[kind].forms:
                legal = ", ".join(("printed", *_KINDS[kind].forms))
                raise OptionError(
                    f"{option} {value}: --disagreement {kind} has no form {name!r}; "
                    f"choose from {legal}"
                )
    return form
