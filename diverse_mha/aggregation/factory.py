"""The routings on the aggregation seam."""

from dataclasses import asdict, dataclass

from diverse_mha.common.errors import OptionError
from diverse_mha.common.methods import Method, Place
from diverse_mha.common.options import COUNT, RATE, flag, option

from .routing import RoutingAggregation, divides
from .seam import AGGREGATION
from .simple import SOFTMAX_OVER


@dataclass
class RoutingOptions:
    """What both routings take."""

    routing_iterations: int = option(3, "iterations of the routing algorithm", legal=COUNT)
    routing_capsules: int | None = option(
        None, "number of output capsules, a divisor of the width; default: the width"
    )
    routing_pre_norm: bool = option(
        False, "layer norm on the head outputs before routing, as in the authors' released code"
    )
    routing_post_norm: bool = option(
        False, "layer norm on the routed result, an option of the authors' released code"
    )


@dataclass
class SimpleRoutingOptions(RoutingOptions):
    """What simple routing takes besides."""

    routing_softmax_over: str = option(
        "capsules",
        "simple routing: what the agreement is normalised over, capsules (paper) or heads "
        "(authors' released code)",
        choices=SOFTMAX_OVER,
    )


@dataclass
class EMRoutingOptions(RoutingOptions):
    """What EM routing takes besides."""

    routing_activation: bool = option(
        True,
        "EM routing: scale each capsule by its activation probability (paper); this flag "
        "switches that off, as in the authors' released code",
    )


def _check(options: RoutingOptions, place: Place) -> None:
    RATE.check_option("activation_dropout", place.activation_dropout)
    capsules, width = options.routing_capsules, place.embed_dim
    if capsules is not None and not divides(capsules, width):
        raise OptionError(
            f"--routing-capsules {capsules} does not divide {flag(place.side)}-embed-dim {width}; "
            f"give a divisor, or leave it out for {width}"
        )


def _method(kind: str, text: str, options: type) -> Method:
    def build(options: RoutingOptions, place: Place) -> RoutingAggregation:
        given = {k.removeprefix("routing_"): v for k, v in asdict(options).items()}
        given["dropout"] = place.activation_dropout
        return RoutingAggregation(place.embed_dim, place.num_heads, kind=kind, **given)

    return Method(kind, text, build, options, _check)


AGGREGATION.register(_method("simple-routing", "simple-routing", SimpleRoutingOptions))
AGGREGATION.register(_method("em-routing", "em-routing (Li et al. 2021)", EMRoutingOptions))
