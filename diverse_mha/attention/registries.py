"""The four open seams of attention: projections, logits, aggregation, Drophead."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from diverse_mha.common.options import Method, Seam, option


@dataclass
class ProjectionsOptions:
    """Options of ``PROJECTIONS``, beside those of its methods."""

    projections_on: str | None = option(
        None,
        "components in which --projections acts: comma list of encoder, cross, decoder; default: "
        "all",
    )


PROJECTIONS = Seam(
    "projections", "none", "how queries, keys and values change by head", ProjectionsOptions
)
"""Builders return a ``ProjectionMap``, or None."""


def _projected(options, place) -> None:
    """Leave the projected queries, keys and values unchanged."""


PROJECTIONS.register(Method("none", "none", _projected, stock=True, head_axes={}))


class ProjectionMap(nn.Module):
    """A module between the projections and q.k.

    Attention, the recorded head states and the cache of decoding use the module's results, so each
    key and value passes through the module once. It must therefore process every position
    independently.

    Attributes:
        adds_first: True if ``keys_values`` adds ``first``; it is then not called in the first layer
            that runs, whose values are ``first``.
    """

    adds_first = False

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
    """Options of ``LOGITS``, beside those of its methods."""

    logits_on: str | None = option(
        None,
        "components in which --logits and --attention-noise act: comma list of encoder, cross, "
        "decoder; default: all",
    )


LOGITS = Seam("logits", "none", "how attention logits change", LogitsOptions)
"""Builders return a ``LogitMap``, or None."""


class LogitMap(nn.Module, ABC):
    """A module between q.k and the softmax."""

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


def _layers_option(component: str):
    return option(
        None,
        f"{component} layers with --aggregation: comma list of numbers from 1, all or none; "
        "default: none",
    )


@dataclass
class LayerOptions:
    """Layers that use an aggregation other than the default."""

    aggregation_encoder_layers: str | None = _layers_option("encoder self-attention")
    aggregation_cross_layers: str | None = _layers_option("encoder-decoder attention")
    aggregation_decoder_layers: str | None = _layers_option("decoder self-attention")


AGGREGATION = Seam(
    "aggregation", "linear", "how the outputs of the heads become one vector", LayerOptions
)
"""Builders return None for the output projection, or a module in its place: from concatenated head
outputs (B, T, C) to (B, T, C). A module with ``sees_input = True`` also gets the layer's input (B,
T, C). In self-attention, a module with ``sees_values = True`` also gets the values of the queries'
positions (B, H, T, D)."""


def _projection(options, place) -> None:
    """Keep the output projection."""


AGGREGATION.register(
    Method("linear", "linear (concatenate and project)", _projection, stock=True, head_axes={})
)


DROPHEAD = Seam("drophead_method", "independent", "how --drophead drops heads")
"""Builders return None, or a module that zeroes some head outputs of (B, H, T, D), called in
training only. fairseq calls its ``set_num_updates`` if it has one."""
