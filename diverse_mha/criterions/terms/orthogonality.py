"""The orthogonality regulariser of Yun et al. 2021 as a part of the loss."""

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.criterions.config import PROJECTIONS, parse_names, refuse_idle
from diverse_mha.criterions.terms.base import Layers, Term, by_component
from diverse_mha.criterions.weights import Weights
from diverse_mha.regularizers import mean_pairwise_cosine, srip

# Letter of the projection: the state, and the mask of the positions it has.
_STATES = {
    "q": ("queries", "query_padding_mask"),
    "k": ("keys", "key_padding_mask"),
    "v": ("values", "key_padding_mask"),
}


_ALL_BUT_WEIGHT = ("normalization", "on", "cosine_on", "unit_vectors", "method")


class Orthogonality(Term):
    """SRIP and mean cosine of the heads' projections, lower = closer to orthogonal; minimised.

    Both parts sum over the projections they are taken of. The paper does not say what its
    lambda is relative to. ``mean-loss``: the mean over the layers of a component is added to
    the mean loss of a token. ``summed-loss``: the sum over the layers is added, once for every
    batch of a process, to the loss that is summed over the batch's tokens and that fairseq
    divides by the sum of sample sizes afterwards; so lambda weighs lambda * layers / tokens of
    what it does in the former, tokens being those of one batch: as many processes, or as large
    an ``--update-freq``, as one likes change nothing in that, larger batches do.

    Args:
        srip_on: projections whose SRIP is taken.
        cosine_on: projections whose mean cosine is taken; may be none.
        weights: lambda, of both parts.
        normalization: ``"mean-loss"`` or ``"summed-loss"``, of both parts.
        unit_vectors: take the SRIP of vectors divided by their norms.
        method: of ``regularizers.srip``.
    """

    option = on_option = "--orthogonality-weight"

    def __init__(
        self,
        srip_on: tuple[str, ...],
        cosine_on: tuple[str, ...],
        weights: Weights,
        *,
        normalization: str,
        unit_vectors: bool,
        method: str,
    ):
        self.srip_on, self.cosine_on = srip_on, cosine_on
        self.weights, self.components = weights, tuple(weights.by_component)
        self.normalization, self.unit_vectors, self.method = normalization, unit_vectors, method
        used = dict.fromkeys((*srip_on, *cosine_on))
        self.wanted = tuple(_STATES[letter][0] for letter in used)

    @classmethod
    def from_config(cls, cfg):
        """Read the method off the options; see ``Term.from_config``."""
        weights = Weights.parse(cls.option, cfg.orthogonality_weight)
        srip_on = parse_names("--orthogonality-on", cfg.orthogonality_on, PROJECTIONS)
        cosine_on = ()
        if cfg.orthogonality_cosine_on != "none":
            option = "--orthogonality-cosine-on"
            cosine_on = parse_names(option, cfg.orthogonality_cosine_on, PROJECTIONS)
        if not weights:
            idle = tuple(f"orthogonality_{option}" for option in _ALL_BUT_WEIGHT)
            refuse_idle(cfg, idle, f"with {cls.option} 0; give a weight above 0")
            return None
        return cls(
            srip_on,
            cosine_on,
            weights,
            normalization=str(cfg.orthogonality_normalization),
            unit_vectors=cfg.orthogonality_unit_vectors,
            method=str(cfg.orthogonality_method),
        )

    def share(self, layers, sample_size):
        """Return what a component adds to the mean loss at weight 1, by the normalisation."""
        if self.normalization == "mean-loss":
            return super().share(layers, sample_size)
        return sum(layers) / sample_size

    def values(self, head_states, training):
        """Compute SRIP and the mean cosine; see ``Term.values``."""

        def srip_of_layer(x: Tensor, padding_mask: Tensor | None) -> Tensor:
            return srip(x, padding_mask, unit_vectors=self.unit_vectors, method=self.method)

        values = {"orthogonality": self._by_component(head_states, self.srip_on, srip_of_layer)}
        if self.cosine_on:
            cosine = self._by_component(head_states, self.cosine_on, mean_pairwise_cosine)
            values["orthogonality_cosine"] = cosine
        return values

    def _by_component(self, head_states, letters: tuple[str, ...], function) -> Layers:
        """Sum ``function`` over the projections of each layer."""

        def of_component(layers: list[HeadStates]) -> list[Tensor]:
            return [
                sum(function(*(getattr(s, name) for name in _STATES[x])) for x in letters)
                for s in layers
            ]

        return by_component(self.on_option, self.components, head_states, of_component)
