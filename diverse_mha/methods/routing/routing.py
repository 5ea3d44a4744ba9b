"""Routing, which replaces the output projection of attention."""

import inspect
import math
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from diverse_mha.attention.registries import AGGREGATION
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import Method, Place, check_option, option
from diverse_mha.common.ranges import COUNT, RATE
from diverse_mha.methods.routing.algorithms import SOFTMAX_OVER, em_routing, simple_routing
from diverse_mha.methods.routing.backend import fused_routing

ROUTINGS = {"simple-routing": simple_routing, "em-routing": em_routing}


def divides(capsules: int, embed_dim: int) -> bool:
    """Return True if ``capsules`` is at least 1 and divides the width ``embed_dim``."""
    return capsules >= 1 and embed_dim % capsules == 0


class RoutingAggregation(nn.Module):
    """Aggregates the outputs of the heads by routing-by-agreement.

    Pass it as ``aggregation`` to :class:`diverse_mha.attention.MultiheadAttention`. Start with EM
    routing in the first two encoder layers; a model with routing cannot be exported to stock
    fairseq, CTranslate2 or transformers.

    Li et al. 2021, Eq. 8-15. Input capsules are a non-linear function of the concatenated
    head outputs O. Each casts a vote for each of N output capsules, and the routing algorithm
    decides how far each vote counts::

        Omega_in = ReLU(O W_1 + b_1)                f_h of all heads at once: C -> C
        V_hn     = Omega_in W_hn + b_hn             C -> C/N, for H heads and N capsules
        result   = [Omega_1, ..., Omega_N]          routed from V, size C

    Replacing the output projection adds (C C + C) + (C H C + H C) - (C C + C) parameters, as in the
    paper's Tables 3 and 4. The paper leaves the shape of f_h, the function of head h, open. One
    hidden layer shared by all heads agrees with the authors' released code and the paper's counts.

    Args:
        embed_dim: C, the size of the concatenated head outputs and of the result.
        num_heads: H, the number of votes for each capsule.
        kind: one of ``ROUTINGS``.
        capsules: N, a divisor of ``embed_dim``; None for ``embed_dim``, the paper's best.
        iterations: iterations of the routing algorithm, at least 1.
        dropout: probability of dropping a unit of the hidden layer in training.
        activation: EM routing only: False leaves the activation probability A_n out, as the
            authors' released code does.
        softmax_over: simple routing only: ``"capsules"`` (paper) or ``"heads"`` (authors'
            released code).
        pre_norm: layer norm on O, as in the authors' released code; adds 2 C parameters.
        post_norm: layer norm on the result, an option of the authors' code; adds 2 C parameters.

    Raises:
        ValueError: for an illegal argument.

    Example:
        >>> import torch
        >>> from diverse_mha.attention import MultiheadAttention
        >>> routing = RoutingAggregation(32, 4, kind="em-routing")
        >>> attention = MultiheadAttention(32, 4, batch_first=True, aggregation=routing)
        >>> x = torch.randn(2, 5, 32)
        >>> attention(x, x, x)[0].shape
        torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        kind: str = "em-routing",
        capsules: int | None = None,
        iterations: int = 3,
        dropout: float = 0.0,
        activation: bool = True,
        softmax_over: str = "capsules",
        pre_norm: bool = False,
        post_norm: bool = False,
    ):
        super().__init__()
        if kind not in ROUTINGS:
            raise ValueError(f"kind is {kind!r}; expected one of {tuple(ROUTINGS)}")
        COUNT.check("embed_dim", embed_dim)
        COUNT.check("num_heads", num_heads)
        capsules = embed_dim if capsules is None else capsules
        if not divides(capsules, embed_dim):
            raise ValueError(
                f"capsules is {capsules!r}; expected a divisor of embed_dim, {embed_dim}, "
                "of at least 1"
            )
        RATE.check("dropout", dropout)
        self.embed_dim, self.num_heads, self.capsules = embed_dim, num_heads, capsules
        self.kind, self.dropout = kind, dropout
        given = {"iterations": iterations, "activation": activation, "softmax_over": softmax_over}
        takes = inspect.signature(ROUTINGS[kind]).parameters
        self.options = {name: value for name, value in given.items() if name in takes}
        self.pre_norm = nn.LayerNorm(embed_dim) if pre_norm else None
        self.hidden = nn.Linear(embed_dim, embed_dim)
        self.votes = nn.Linear(embed_dim, num_heads * embed_dim)
        self.post_norm = nn.LayerNorm(embed_dim) if post_norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Xavier-uniform weights (for votes, head by head) and set the biases to zero."""
        nn.init.xavier_uniform_(self.hidden.weight)
        for head in self.votes.weight.detach().chunk(self.num_heads):
            nn.init.xavier_uniform_(head)
        nn.init.zeros_(self.hidden.bias)
        nn.init.zeros_(self.votes.bias)

    def forward(self, head_outputs: Tensor) -> Tensor:
        """Aggregate head outputs.

        Args:
            head_outputs: (..., C), concatenated; any floating-point dtype. Positions do not
                interact, so padding needs no mask.

        Returns:
            (..., C), in the dtype of the votes; the routing itself runs in float32 or float64.
        """
        if head_outputs.size(-1) != self.embed_dim:
            raise ValueError(
                f"head_outputs has shape {tuple(head_outputs.shape)}; expected its last "
                f"dimension to be embed_dim, {self.embed_dim}"
            )
        x = head_outputs if self.pre_norm is None else self.pre_norm(head_outputs)
        x = F.relu(self.hidden(x))  # (..., C)
        x = F.dropout(x, self.dropout, self.training)
        votes = self.votes(x)  # (..., H*C)
        dims = self.embed_dim // self.capsules
        cast = votes.reshape(math.prod(votes.shape[:-1]), self.num_heads, self.capsules, dims)
        with torch.autocast(votes.device.type, enabled=False):
            routed = fused_routing(ROUTINGS[self.kind], cast, self.options)  # (K, N, C/N)
        out = routed.to(votes.dtype).view(head_outputs.shape)  # (..., C)
        return out if self.post_norm is None else self.post_norm(out)

    def extra_repr(self) -> str:
        """Describe the module for ``print(module)``."""
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"kind={self.kind}, heads={self.num_heads}, capsules={self.capsules}, {options}"


@dataclass
class RoutingOptions:
    """Options of simple and EM routing.

    Leave the capsules at the width, which is the paper's best: on a CPU, the fast kernel needs it.
    The layer norms are parts of the authors' released code that the paper does not mention.
    """

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
    """Over what simple routing normalises; ``heads`` repeats the authors' released code."""

    routing_softmax_over: str = option(
        "capsules",
        "simple routing: what the agreement is normalised over, capsules (paper) or heads "
        "(authors' released code)",
        choices=SOFTMAX_OVER,
    )


@dataclass
class EMRoutingOptions(RoutingOptions):
    """The activation of EM routing; switch it off to repeat the authors' released code."""

    routing_activation: bool = option(
        True,
        "EM routing: scale each capsule by its activation probability (paper); this flag "
        "switches that off, as in the authors' released code",
    )


def _check(options: RoutingOptions, place: Place) -> None:
    check_option(RATE, "activation_dropout", place.activation_dropout)
    capsules, width = options.routing_capsules, place.embed_dim
    if capsules is not None and not divides(capsules, width):
        raise UserError(
            Option("routing_capsules", capsules), " does not divide ",
            Option(f"{place.side}_embed_dim", width),
            f"; give a divisor, or leave it out for {width}",
        )  # fmt: skip


def _build(kind: str, options: RoutingOptions, place: Place) -> RoutingAggregation:
    given = {k.removeprefix("routing_"): v for k, v in asdict(options).items()}
    given["dropout"] = place.activation_dropout
    return RoutingAggregation(place.embed_dim, place.num_heads, kind=kind, **given)


def _method(kind: str, text: str, options: type) -> Method:
    return Method(kind, text, partial(_build, kind), options, _check)


AGGREGATION.register(_method("simple-routing", "simple-routing", SimpleRoutingOptions))
AGGREGATION.register(_method("em-routing", "em-routing (Li et al. 2021)", EMRoutingOptions))
