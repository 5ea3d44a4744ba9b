"""The four open seams of attention: projections, logits, aggregation, Drophead."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from diverse_mha.common.options import Method, NoOptions, Place, Seam, option


@dataclass
class ProjectionsOptions:
    """Where ``PROJECTIONS`` acts. Each method adds options of its own.

    Restrict a method to one component to see which kind of attention it helps or harms.
    """

    projections_on: str | None = option(
        None,
        "components in which --projections acts: comma list of encoder, cross, decoder; default: "
        "all",
    )


PROJECTIONS: "Seam[ProjectionMap]" = Seam(
    "projections", "none", "how queries, keys and values change by head", ProjectionsOptions
)
"""Registry of methods that change queries, keys or values (``--projections``).

Register a method here if it treats every position by itself, before queries meet keys; it then also
works with cached keys in decoding. A builder returns a :class:`ProjectionMap`, or None for a layer
that stays as it is.
"""


def _projected(options: NoOptions, place: Place) -> None:
    """Leave the projected queries, keys and values unchanged."""


PROJECTIONS.register(Method("none", "none", _projected, stock=True, head_axes={}))


class ProjectionMap(nn.Module):
    """A module between the projections and q.k.

    Subclass it to change queries, keys or values of all heads, and register it in ``PROJECTIONS``,
    or pass it as ``projections`` to :class:`diverse_mha.attention.MultiheadAttention`.

    Attention, the recorded head states and the cache of decoding use the module's results, so each
    key and value passes through the module once. It must therefore process every position
    independently.

    Attributes:
        adds_first: True if ``keys_values`` adds ``first``; it is then not called in the first layer
            that runs, whose values are ``first``.

    Example:
        >>> import torch
        >>> from diverse_mha.attention import MultiheadAttention
        >>> class NoValues(ProjectionMap):
        ...     def keys_values(self, keys, values, first):
        ...         return keys, 0 * values
        >>> attention = MultiheadAttention(32, 4, batch_first=True, projections=NoValues())
        >>> x = torch.randn(2, 5, 32)
        >>> attention(x, x, x)[0].abs().max().item()  # the bias of the output projection is 0
        0.0
    """

    adds_first: bool = False

    def queries(self, queries: Tensor) -> Tensor:
        """Return the queries, (B, H, T, D), not scaled."""
        return queries

    def keys_values(
        self, keys: Tensor, values: Tensor, first: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return keys and values, (B, H, S, D).

        Args:
            keys: (B, H, S, D), projected.
            values: (B, H, S, D), projected.
            first: (B, H, S, D), the projected values of layer 1 of the component, or of the first
                layer that layer drop leaves; None in this layer, and if the method does not carry
                values.
        """
        return keys, values


@dataclass
class LogitsOptions:
    """Where ``LOGITS`` acts. Each method adds options of its own.

    Restrict a method to one component to see which kind of attention it helps or harms: RealFormer
    without the decoder, for instance, showed no loss of BLEU in our study (two seeds).
    """

    logits_on: str | None = option(
        None,
        "components in which --logits and --attention-noise act: comma list of encoder, cross, "
        "decoder; default: all",
    )


LOGITS: "Seam[LogitMap]" = Seam("logits", "none", "how attention logits change", LogitsOptions)
"""Registry of methods that change attention logits before the softmax (``--logits``).

Register a method here if it needs the logits of all queries and keys, or those of the layer before.
Attention then takes the explicit path, which is slower and takes more memory than the fused kernel.
A builder returns a :class:`LogitMap`, or None for a layer that stays as it is.
"""


class LogitMap(nn.Module, ABC):
    """A module between q.k and the softmax.

    Subclass it to change attention logits, and register it in ``LOGITS``, or pass it as
    ``logit_map`` to :class:`diverse_mha.attention.MultiheadAttention`.

    Example:
        >>> import torch
        >>> from diverse_mha.attention import MultiheadAttention
        >>> class Flat(LogitMap):
        ...     def forward(self, logits, previous, masked=None, queries=None, keys=None):
        ...         return 0 * logits
        >>> attention = MultiheadAttention(32, 4, batch_first=True, logit_map=Flat())
        >>> x = torch.randn(2, 5, 32)
        >>> weights = attention(x, x, x)[1]  # every head looks at all five positions
        >>> torch.allclose(weights, torch.full_like(weights, 1 / 5))
        True
    """

    def acts(self, previous: Tensor | None) -> bool:
        """Return True if a pass needs the map; ``previous`` is as in :meth:`forward`."""
        return True

    @abstractmethod
    def forward(
        self,
        logits: Tensor,
        previous: Tensor | None,
        masked: Tensor | None = None,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Return the logits (B, H, T, S), before masking; they are also passed to the next layer.

        A map that draws K samples returns (B, K H, T, S), the heads of one sample after those of
        another; see :meth:`average`.

        Args:
            logits: (B, H, T, S), scaled q.k of this layer, not masked.
            previous: (B, H, T, S), logits of the layer before, or None.
            masked: bool, broadcasts to (B, H, T, S), True = may not attend.
            queries: (B, H, T, D), not scaled.
            keys: (B, H, S, D).
        """

    def carry(self, logits: Tensor, previous: Tensor | None) -> Tensor:
        """Return what the next layer gets as ``previous``, (B, H, T, S)."""
        return logits

    def average(self, x: Tensor) -> Tensor:
        """Average logits, or their softmax, over the K samples: (B, K H, T, S) to (B, H, T, S)."""
        return x

    def after_softmax(self, weights: Tensor, scores: Tensor) -> Tensor:
        """Return the weights of the values, (B, H, T, S), before dropout; they are not recorded.

        ``scores`` are the logits with the mask, of which ``weights`` are the softmax.
        """
        return weights


def _layers_option(component: str) -> str | None:
    return option(
        None,
        f"{component} layers with --aggregation: comma list of numbers from 1, all or none; "
        "default: none",
    )


@dataclass
class LayerOptions:
    """Layers that use an aggregation other than the default; none does unless one is named.

    Name few layers first: EM routing in encoder layers 1 and 2 cost 1.2 times the time of an update
    in our study, and it was the aggregation with the largest gain.
    """

    aggregation_encoder_layers: str | None = _layers_option("encoder self-attention")
    aggregation_cross_layers: str | None = _layers_option("encoder-decoder attention")
    aggregation_decoder_layers: str | None = _layers_option("decoder self-attention")


AGGREGATION: Seam[nn.Module] = Seam(
    "aggregation", "linear", "how the outputs of the heads become one vector", LayerOptions
)
"""Registry of methods that make one vector of the outputs of all heads (``--aggregation``).

Register a method here if it replaces the output projection. A model with such a method needs this
package, as stock fairseq has only the projection. Losses on heads see them before the aggregation.

A builder returns None for the output projection, or a module in its place: from concatenated head
outputs (B, T, C) to (B, T, C). A module with ``sees_input = True`` also gets the layer's input (B,
T, C). In self-attention, a module with ``sees_values = True`` also gets the values of the queries'
positions (B, H, T, D).
"""


def _projection(options: NoOptions, place: Place) -> None:
    """Keep the output projection."""


AGGREGATION.register(
    Method("linear", "linear (concatenate and project)", _projection, stock=True, head_axes={})
)


@runtime_checkable
class CountsUpdates(Protocol):
    """A module that is told the number of updates before each one, such as for a schedule.

    fairseq calls its ``set_num_updates``, as does ``HeadTerms``.
    """

    def set_num_updates(self, num_updates: int) -> None:
        """Take the number of updates done."""
        ...


DROPHEAD: Seam[nn.Module] = Seam("drophead_method", "independent", "how --drophead drops heads")
"""Registry of ways to drop whole heads in training (``--drophead-method``).

Register a method here if it chooses the heads to drop in another way, such as by a schedule. Heads
are dropped in training only, so a trained model can remain a stock model.

A builder returns None, or a module that zeroes some head outputs of (B, H, T, D), called in
training only. If it is one that :class:`CountsUpdates`, it is told the number of updates.
"""
