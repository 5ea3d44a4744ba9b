"""Options of the criterions: what the loss asks of the heads."""

from dataclasses import dataclass, field, fields
from typing import Optional

from fairseq.dataclass import ChoiceEnum

from diverse_mha.common.errors import OptionError
from diverse_mha.regularizers.disagreement import FORMS
from diverse_mha.regularizers.hsic import DEFAULT_NORMALIZATION, KERNELS, NORMALIZATIONS
from diverse_mha.regularizers.orthogonality import METHODS

COMPONENTS = ("encoder", "cross", "decoder")
DISAGREEMENT_TERMS = ("subspace", "position", "output")
DISAGREEMENT_FORMS = ("printed", *FORMS)
PROJECTIONS = ("q", "k", "v")
ORTHOGONALITY_NORMALIZATIONS = ("mean-loss", "summed-loss")
DEFAULT_ORTHOGONALITY_NORMALIZATION = "summed-loss"
_WEIGHTS = "; or one for each component, such as encoder=1.0,cross=0.5, which names them too"


def _option(default, text: str):
    return field(default=default, metadata={"help": text})


@dataclass
class DiversityConfig:
    """Terms, components and weights; mixed into the configuration of every criterion."""

    disagreement: Optional[str] = _option(
        None,
        "disagreement terms to maximise (Li et al. 2018), separated by commas: "
        "subspace, position, output; default: none",
    )
    disagreement_on: Optional[str] = _option(
        None,
        "components the terms apply to, separated by commas: encoder, cross, "
        "decoder; default: every one the model has",
    )
    disagreement_weight: str = _option(
        "1.0",
        "weight of each disagreement term, lambda in the paper; 0 logs the terms "
        "without training on them" + _WEIGHTS,
    )
    disagreement_form: str = _option(
        "printed",
        "form of the terms: printed (the paper's), or, not in the papers, separated by commas: "
        "centred (cosines of vectors minus their mean over the batch), off-diagonal (mean over "
        "the pairs i != j) or squared (mean squared cosine over i != j: perpendicular heads "
        "are the optimum)",
    )
    hsic_weight: str = _option(
        "0.0",
        "weight of HSIC between the outputs of the heads, which is minimised (Yun et al. 2021, "
        "whose lambda is 1e-7); 0: off" + _WEIGHTS,
    )
    hsic_on: Optional[str] = _option(
        None,
        "components HSIC applies to, separated by commas: encoder, cross, decoder; default: "
        "every one the model has",
    )
    hsic_kernel: ChoiceEnum(KERNELS) = _option("linear", "kernel of HSIC: linear or rbf")
    hsic_normalization: ChoiceEnum(NORMALIZATIONS) = _option(
        DEFAULT_NORMALIZATION,
        "scale of HSIC over N positions: trace, tr(K C K C), or mean, that divided by (N-1)^2; "
        "equations.md says how lambda depends on it",
    )
    hsic_samples: int = _option(
        512,
        "number of positions of a batch that HSIC takes at most: drawn at random in training, "
        "evenly spaced in validation",
    )
    hsic_bandwidth: float = _option(
        1.0, "bandwidth of the rbf kernel, in multiples of the median distance of a head's samples"
    )
    orthogonality_weight: str = _option(
        "0.0",
        "weight of the orthogonality regulariser, the sum of a spectral-norm (SRIP) and a cosine "
        "part, which is minimised (Yun et al. 2021, whose lambda is 1.0); 0: off" + _WEIGHTS,
    )
    orthogonality_normalization: ChoiceEnum(ORTHOGONALITY_NORMALIZATIONS) = _option(
        DEFAULT_ORTHOGONALITY_NORMALIZATION,
        "what the orthogonality regulariser is added to: mean-loss (averaged over layers, to the "
        "mean loss of a token) or summed-loss (summed over layers, once to the summed loss of a "
        "batch, which is divided by its tokens afterwards); equations.md says how lambda depends "
        "on it",
    )
    orthogonality_on: str = _option(
        "v", "projections whose SRIP is taken, separated by commas: q, k, v"
    )
    orthogonality_cosine_on: str = _option(
        "q,k,v",
        "projections whose mean cosine between heads is added, separated by commas: q, k, v; "
        "or none",
    )
    orthogonality_unit_vectors: bool = _option(
        False,
        "take the SRIP of the heads' vectors divided by their norms, so that directions alone "
        "count (not in the paper)",
    )
    orthogonality_method: ChoiceEnum(METHODS) = _option(
        "power",
        "how SRIP gets the spectral norm: power (power iterations, fast, about 1% too small) "
        "or exact (eigenvalues)",
    )
    diversity_start: int = _option(
        0, "number of updates before any term counts; till then none is computed in training"
    )
    diversity_warmup_updates: int = _option(
        0,
        "number of updates, from the start, in which the weights of all terms rise to their values",
    )
    diversity_end: int = _option(
        0,
        "number of updates at which the weights of all terms have fallen to 0, linearly from the "
        "start and its warm-up on; 0: they stay as they are",
    )
    log_gradient_share: int = _option(
        0,
        "every so many updates log which share of the gradient each term has, for one more "
        "backward pass a term and one for the token loss, in one process only; 0: never",
    )


def parse_names(option: str, value: Optional[str], legal: tuple[str, ...]) -> tuple[str, ...]:
    """Read a comma list of names.

    Args:
        option: spelling of the option, for the message.
        value: the list, or None for no names.
        legal: the names there are.

    Returns:
        The names in the order of ``legal``.

    Raises:
        OptionError: for an unknown or repeated name.
    """
    if value is None:
        return ()
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in legal:
            raise OptionError(f"{option} {value}: unknown {name!r}; choose from {', '.join(legal)}")
        if names.count(name) > 1:
            raise OptionError(f"{option} {value}: {name!r} is given twice; name it once")
    return tuple(name for name in legal if name in names)


def refuse_idle(cfg, options: tuple[str, ...], why: str) -> None:
    """Refuse options that were given and would do nothing.

    Args:
        cfg: the criterion's configuration.
        options: names of fields of ``DiversityConfig``.
        why: what the message goes on with after "has no effect".

    Raises:
        OptionError: naming the first option whose value is not its default.
    """
    defaults = {f.name: f.default for f in fields(DiversityConfig)}
    for name in options:
        value = getattr(cfg, name)
        if _plain(value) != _plain(defaults[name]):
            raise OptionError(f"--{name.replace('_', '-')} {value} has no effect {why}")


def _plain(value):
    """Return what an option means: 1, 1.0 and "1.0" are the same weight."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
