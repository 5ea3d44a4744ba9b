"""The orthogonality regulariser of Yun et al. 2021 as a part of the loss."""

from dataclasses import dataclass

from diverse_mha.common.options import old_name, option, parse_names
from diverse_mha.criterions.terms.base import TERMS, Term, total, weight_option
from diverse_mha.regularizers import mean_pairwise_cosine, srip
from diverse_mha.regularizers.orthogonality import METHODS

NORMALIZATIONS = ("mean-loss", "summed-loss")
DEFAULT_NORMALIZATION = "summed-loss"
# Letter of the projection: the state, and the mask of the positions it has.
_STATES = {
    "q": ("queries", "query_padding_mask"),
    "k": ("keys", "key_padding_mask"),
    "v": ("values", "key_padding_mask"),
}


@dataclass
class OrthogonalityOptions:
    """How strongly, and of which projections."""

    orthogonality_weight: str = weight_option(
        "0.0",
        "weight of the orthogonality regulariser, the sum of a spectral-norm (SRIP) and a cosine "
        "part, which is minimised (Yun et al. 2021, whose lambda is 1.0); 0: off",
    )
    orthogonality_normalization: str = option(
        DEFAULT_NORMALIZATION,
        "what the orthogonality regulariser is added to: mean-loss (averaged over layers, to the "
        "mean loss of a token) or summed-loss (summed over layers, once to the summed loss of a "
        "batch, which is divided by its tokens afterwards); equations.md says how lambda depends "
        "on it",
        choices=NORMALIZATIONS,
    )
    orthogonality_projections: str = option(
        "v", "projections whose SRIP is taken, separated by commas: q, k, v"
    )
    orthogonality_cosine_projections: str = option(
        "q,k,v",
        "projections whose mean cosine between heads is added, separated by commas: q, k, v; "
        "or none",
    )
    orthogonality_unit_vectors: bool = option(
        False,
        "take the SRIP of the heads' vectors divided by their norms, so that directions alone "
        "count (not in the paper)",
    )
    orthogonality_method: str = option(
        "power",
        "how SRIP gets the spectral norm: power (power iterations, fast, about 1% too small) "
        "or exact (eigenvalues)",
        choices=METHODS,
    )
    orthogonality_on: str | None = old_name("orthogonality_projections", "v")
    orthogonality_cosine_on: str | None = old_name("orthogonality_cosine_projections", "q,k,v")


@TERMS.register
class Orthogonality(Term):
    """SRIP and mean cosine of the heads' projections, lower = closer to orthogonal; minimised.

    Both parts sum over the projections they are taken of. The paper does not say what its
    lambda is relative to. ``mean-loss``: the mean over the layers of a component is added to
    the mean loss of a token. ``summed-loss``: the sum over the layers is added, once for every
    batch of a process, to the loss that is summed over the batch's tokens and that fairseq
    divides by the sum of sample sizes afterwards; so lambda weighs lambda * layers / tokens of
    what it does in the former, tokens being those of one batch: as many processes, or as large
    an ``--update-freq``, as one likes change nothing in that, larger batches do.
    """

    name, options = "orthogonality", OrthogonalityOptions
    joinable = ("orthogonality", "orthogonality_cosine")

    def __init__(self, given, weights, components):
        super().__init__(given, weights, components)
        legal = tuple(_STATES)
        self.srip_on = parse_names(
            "--orthogonality-projections", given.orthogonality_projections, legal
        )
        self.cosine_on = ()
        if given.orthogonality_cosine_projections != "none":
            option = "--orthogonality-cosine-projections"
            self.cosine_on = parse_names(option, given.orthogonality_cosine_projections, legal)
        used = dict.fromkeys((*self.srip_on, *self.cosine_on))
        self.wanted = tuple(_STATES[letter][0] for letter in used)

    @classmethod
    def where(cls):
        """None: ``--orthogonality-on`` named projections before."""

    @property
    def logged(self):
        """SRIP, and the cosine if any is taken."""
        return ("orthogonality", "orthogonality_cosine") if self.cosine_on else ("orthogonality",)

    def share(self, layers, sample_size):
        """Return what a component adds to the mean loss at weight 1, by the normalisation."""
        if self.given.orthogonality_normalization == "mean-loss":
            return super().share(layers, sample_size)
        return total(layers) / sample_size

    def value(self, name, states, shared):
        """Sum SRIP, or the mean cosine, over the projections it is taken of."""

        def of(letter: str):
            x, padding_mask = (getattr(states, part) for part in _STATES[letter])
            if name == "orthogonality_cosine":
                return mean_pairwise_cosine(x, padding_mask)
            given = self.given
            options = given.orthogonality_unit_vectors, given.orthogonality_method
            return srip(x, padding_mask, unit_vectors=options[0], method=options[1])

        return sum(map(of, self.srip_on if name == "orthogonality" else self.cosine_on))
