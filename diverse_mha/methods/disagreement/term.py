"""Disagreement between heads (Li et al. 2018) as a loss term."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import option, parse_names
from diverse_mha.methods.disagreement.functions import (
    FORMS,
    POSITION_FORMS,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from diverse_mha.methods.term import TERMS, Term, components_option, weight_option


class _Kind(NamedTuple):
    function: Callable[..., Tensor]
    state: str
    masks: tuple[str, ...]
    forms: tuple[str, ...]


def _position(weights: Tensor, *masks: Tensor | None, form: tuple[str, ...]) -> Tensor:
    """Compute the position term; its form ``"sentence"`` is a reduction."""
    reduction = "sentence" if "sentence" in form else "query"
    form = tuple(name for name in form if name != "sentence")
    return position_disagreement(weights, *masks, reduction=reduction, form=form)


_QUERIES, _KEYS = "query_padding_mask", "key_padding_mask"
_KINDS = {
    "subspace": _Kind(subspace_disagreement, "values", (_KEYS,), FORMS),
    "position": _Kind(_position, "weights", (_QUERIES, _KEYS), ("sentence", *POSITION_FORMS)),
    "output": _Kind(output_disagreement, "outputs", (_QUERIES,), FORMS),
}


#: Largest number of heads of a component for which a weight of 1.0 is known to fail. With 8 heads,
#: and with layer norm before each block, our models trained.
FEW_HEADS = 4
# Kinds whose trainings at weight 1.0 failed, and the forms with which they did not
# (results/details.md, "The disagreement terms in other forms").
_TRAINED = {"subspace": {"centred"}, "output": {"squared"}}


@dataclass
class DisagreementOptions:
    """Kinds, components, weight and form of the disagreement terms.

    Give ``output`` and ``subspace`` a weight of 0.1. The default of 1.0 is the paper's, and seven
    of our nine post-norm models with four heads failed to train with it.
    """

    disagreement: str | None = option(
        None,
        "disagreement terms to maximise (Li et al. 2018): comma list of subspace, position, "
        "output; default: none",
    )
    disagreement_on: str | None = components_option("the terms apply")
    disagreement_weight: str = weight_option(
        "1.0",
        "weight of each disagreement term (lambda in the paper); begin with 0.1 on a post-norm "
        "model with few heads; 0: log the terms only",
    )
    disagreement_form: str = option(
        "paper",
        "form of the terms: paper; or a comma list. For position, in Li et al. 2018: sentence "
        "(Eq. 2 as printed, summed over a sentence), squared-difference (footnote 2). Not in the "
        "papers: "
        "centred (vectors minus their mean over the batch), off-diagonal (pairs i != j only), "
        "squared (squared cosines of i != j; perpendicular heads are the optimum)",
    )


@TERMS.register
class Disagreement(Term[DisagreementOptions]):
    """D of the chosen kinds, higher = more diverse; maximised. Weight 0 only logs it.

    Choose it to repeat Li et al. 2018: ``subspace`` acts on values, ``position`` on attention
    weights, ``output`` on the outputs of heads. Expect a D near its maximum; CKA may rise.
    """

    name, options, sign = "disagreement", DisagreementOptions, -1

    def __init__(self, given: DisagreementOptions, weight: float, components: tuple[str, ...]):
        super().__init__(given, weight, components)
        self.kinds = parse_names("disagreement", given.disagreement, tuple(_KINDS))
        self.wanted = tuple(_KINDS[kind].state for kind in self.kinds)
        self.form = _parse_form(given.disagreement_form, self.kinds)
        if "centred" not in self.form:  # joined layers would have one mean instead of their own
            self.joinable = self.logged

    @classmethod
    def switch(cls) -> str:
        """Return the option that switches the term on."""
        return cls.name

    @property
    def on(self) -> bool:
        """True if the options name a kind of disagreement."""
        return bool(self.kinds)

    @property
    def logged(self) -> tuple[str, ...]:
        """Names in the log, one for each kind of disagreement."""
        return tuple(f"disagreement_{kind}" for kind in self.kinds)

    def risk(self, heads: Mapping[str, int], post_norm: Collection[str]) -> str | None:
        """Describe our trainings at weight 1.0, if the model is one of few heads and post-norm."""
        kinds = [k for k, forms in _TRAINED.items() if k in self.kinds and not forms & {*self.form}]
        few = [c for c in self.components or heads if c in post_norm and heads[c] <= FEW_HEADS]
        if self.weight < 1 or not kinds or not few:
            return None
        return (
            f"disagreement {','.join(kinds)} with weight {self.weight:g} in a post-norm model "
            f"with {', '.join(f'{heads[c]} {c} heads' for c in few)}: in our study seven of "
            " nine such trainings (4 heads, weight 1.0) ended at 3 to 13 BLEU instead of "
            "40; with weight 0.1 they trained (docs/which-method.md)"
        )

    def value(self, name: str, states: HeadStates, shared: None) -> Tensor:
        """Compute D of one kind."""
        kind = _KINDS[name.removeprefix("disagreement_")]
        masks = (getattr(states, mask) for mask in kind.masks)
        return kind.function(getattr(states, kind.state), *masks, form=self.form)


def _parse_form(value: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the forms; an empty tuple for the paper's form."""
    option = "disagreement_form"
    legal = dict.fromkeys(form for kind in _KINDS.values() for form in kind.forms)
    form = parse_names(option, value, ("paper", *legal))
    if "paper" in form and len(form) > 1 or {"squared", "off-diagonal"} <= set(form):
        raise UserError(
            Option(option, value),
            ": paper excludes all other forms, and squared excludes off-diagonal; leave one out",
        )
    form = tuple(name for name in form if name != "paper")
    for kind in kinds:
        for name in form:
            if name not in _KINDS[kind].forms:
                legal = ", ".join(("paper", *_KINDS[kind].forms))
                raise UserError(
                    Option(option, value), ": ", Option("disagreement", kind),
                    f" has no form {name!r}; choose from {legal}",
                )  # fmt: skip
    return form
