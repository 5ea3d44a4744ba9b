"""The orthogonality regulariser of Yun et al. 2021 as a part of the loss."""

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.criterions.config import PROJECTIONS, check_weight, parse_names, refuse_idle
from diverse_mha.criterions.terms.base import Term, sum_over_components
from diverse_mha.regularizers import mean_pairwise_cosine, srip

# Letter of the projection: the state, and the mask of the positions it has.
_STATES = {
    "q": ("queries", "query_padding_mask"),
    "k": ("keys", "key_padding_mask"),
    "v": ("values", "key_padding_mask"),
}


class Orthogonality(Term):
    """SRIP and mean cosine of the heads' projections, lower = closer to orthogonal; minimised.

    Both parts sum over the projections they are taken of, on every component of the model.

    Args:
        srip_on: projections whose SRIP is taken.
        cosine_on: projections whose mean cosine is taken; may be none.
        method: of ``regularizers.srip``.
        weight: lambda, of both parts.
    """

    option = "--orthogonality-weight"

    def __init__(
        self, srip_on: tuple[str, ...], cosine_on: tuple[str, ...], method: str, weight: float
    ):
        self.srip_on, self.cosine_on = srip_on, cosine_on
        self.method, self.weight = method, weight
        self.names = ("orthogonality", *(("orthogonality_cosine",) if cosine_on else ()))
        used = dict.fromkeys((*srip_on, *cosine_on))
        self.wanted = tuple(_STATES[letter][0] for letter in used)

    @classmethod
    def from_config(cls, cfg):
        """Read the method off the options; see ``Term.from_config``."""
        weight = check_weight(cls.option, cfg.orthogonality_weight)
        srip_on = parse_names("--orthogonality-on", cfg.orthogonality_on, PROJECTIONS)
        cosine_on = ()
        if cfg.orthogonality_cosine_on != "none":
            option = "--orthogonality-cosine-on"
            cosine_on = parse_names(option, cfg.orthogonality_cosine_on, PROJECTIONS)
        if weight == 0:
            idle = tuple(f"orthogonality_{option}" for option in ("on", "cosine_on", "method"))
            refuse_idle(cfg, idle, f"with {cls.option} 0; give a weight above 0")
            return None
        return cls(srip_on, cosine_on, str(cfg.orthogonality_method), weight)

    def values(self, head_states, training):
        """Compute SRIP and the mean cosine; see ``Term.values``."""

        def srip_of_layer(x: Tensor, padding_mask: Tensor | None) -> Tensor:
            return srip(x, padding_mask, method=self.method)

        values = {"orthogonality": _total(head_states, self.srip_on, srip_of_layer)}
        if self.cosine_on:
            cosine = _total(head_states, self.cosine_on, mean_pairwise_cosine)
            values["orthogonality_cosine"] = cosine
        return values


def _total(head_states: dict[str, list[HeadStates]], letters: tuple[str, ...], function) -> Tensor:
    """Sum of ``function`` over projections and components, layers averaged."""

    def of_component(layers: list[HeadStates]) -> list[Tensor]:
        return [
            sum(function(*(getattr(s, field) for field in _STATES[letter])) for letter in letters)
            for s in layers
        ]

    return sum_over_components("", (), head_states, of_component)
