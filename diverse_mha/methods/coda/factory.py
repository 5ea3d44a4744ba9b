"""Options and registration of the cascades."""

from dataclasses import asdict, dataclass
from functools import partial

from diverse_mha.attention.seams import LOGITS
from diverse_mha.common.methods import Method, Place
from diverse_mha.common.options import COUNT, NOT_NEGATIVE, option
from diverse_mha.methods.coda.modules import Cascade, NetworkCascade, NoCascade, ResidualCascade

CASCADES = ("none", "residual", "mlp")


@dataclass
class NoiseOptions:
    """Options of every cascade."""

    attention_noise: float = option(
        0.0,
        "standard deviation of the Gaussian noise on attention logits in training",
        legal=NOT_NEGATIVE,
    )


@dataclass
class CarryOptions(NoiseOptions):
    """Options of cascades that lead from layer to layer."""

    cascade_form: str = option(
        "sum",
        "what a layer adds of the layers before: the sum of their logits (the papers), or the "
        "mean (not in the papers)",
        choices=("sum", "mean"),
    )


@dataclass
class NetworkOptions(CarryOptions):
    """Options of the cascade through a network."""

    cascade_hidden_ratio: int = option(
        4,
        "width of the cascade's hidden layers, in multiples of the number of heads",
        legal=COUNT,
    )
    cascade_depth: int = option(2, "number of hidden layers of the cascade's network", legal=COUNT)


def _build(kind: str, options: NoiseOptions, place: Place) -> Cascade | None:
    given = {k.removeprefix("cascade_"): v for k, v in asdict(options).items()}
    given["noise"] = given.pop("attention_noise")
    given["mean_over"] = place.number - 1 if given.pop("form", "sum") == "mean" else 0
    # The first layer has no layer before it, only the noise.
    return build_cascade(kind if place.number > 1 else "none", place.num_heads, **given)


def _method(kind: str, text: str, options: type = NoiseOptions) -> Method:
    plain = kind == "none"
    return Method(kind, text, partial(_build, kind), options, stock=plain, carries=not plain)


LOGITS.register(_method("none", "none"))
LOGITS.register(
    _method("residual", "residual (add those of the layer before, RealFormer)", CarryOptions)
)
LOGITS.register(
    _method(
        "mlp",
        "mlp (add them through a small network across heads, Zheng et al. 2021)",
        NetworkOptions,
    )
)


def build_cascade(
    kind: str,
    num_heads: int,
    *,
    hidden_ratio: int = 4,
    depth: int = 2,
    noise: float = 0.0,
    mean_over: int = 0,
) -> Cascade | None:
    """Return the cascade of one attention module, or None if there is nothing to do.

    The rows of Zheng et al. 2021, Table 4: CODA is ``mlp`` with noise 1, CODA-CS ``none`` with
    noise 1, RealFormer ``residual`` without noise, the Transformer ``none`` without noise. Build
    the first layer with ``none`` and the noise of the others.

    Args:
        kind: one of ``CASCADES``.
        num_heads: H.
        hidden_ratio: width of the hidden layers of the network, in multiples of H.
        depth: number of hidden layers. 2 is the authors' released network; 1 is the two-layer
            perceptron of the paper's text.
        noise: standard deviation of the noise on the logits, in training only.
        mean_over: add the mean of what this many layers before contributed (not in the papers);
            0 adds their sum.

    Returns:
        A module ``(logits, previous, masked) -> logits``, or None if ``kind`` is ``none`` and
        ``noise`` is 0.

    Raises:
        ValueError: for an illegal argument.
    """
    if kind not in CASCADES:
        raise ValueError(f"kind is {kind!r}; expected one of {CASCADES}")
    COUNT.check("num_heads", num_heads)
    COUNT.check("hidden_ratio", hidden_ratio)
    COUNT.check("depth", depth)
    NOT_NEGATIVE.check("noise", noise)
    if mean_over:
        COUNT.check("mean_over", mean_over)
    if kind == "mlp":
        shape = {"hidden_ratio": hidden_ratio, "depth": depth}
        return NetworkCascade(num_heads, **shape, noise=noise, mean_over=mean_over)
    if kind == "residual":
        return ResidualCascade(noise=noise, mean_over=mean_over)
    return NoCascade(noise=noise) if noise else None
