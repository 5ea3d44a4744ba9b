"""The three open seams of attention: logits, aggregation, Drophead."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from diverse_mha.common.options import Method, Seam, option


@dataclass
class LogitsOptions:
    """Options of the seam itself."""

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
        """Say whether a pass needs the map; ``previous`` is None or from the layer before."""
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
        """Return the logits (B, H, T, S), to which the mask is added and which are handed on.

        A map that draws K samples returns them side by side, (B, K H, T, S); see :meth:`average`.

        Args:
            logits: (B, H, T, S), scaled q.k of this layer, not masked.
            previous: (B, H, T, S), what the layer before handed on, or None.
            masked: bool, broadcasts to (B, H, T, S), True = may not attend.
            queries: (B, H, T, D), not scaled.
            keys: (B, H, S, D).
        """

    def hand_on(self, logits: Tensor, previous: Tensor | None) -> Tensor:
        """Return what the next layer gets as ``previous``, (B, H, T, S)."""
        return logits

    def average(self, x: Tensor) -> Tensor:
        """Average logits, or their softmax, over the samples drawn: to (B, H, T, S)."""
        return x

    def after_softmax(self, weights: Tensor) -> Tensor:
        """Return what weighs the values, (B, H, T, S), before dropout; it is not recorded."""
        return weights


def _layers_option(component: str):
    return option(
        None,
        f"{component} layers with --aggregation: comma list of numbers from 1, all or none; "
        "default: none",
    )


@dataclass
class LayerOptions:
    """Layers in which a method other than the default sits."""

    aggregation_encoder_layers: str | None = _layers_option("encoder self-attention")
    aggregation_cross_layers: str | None = _layers_option("encoder-decoder attention")
    aggregation_decoder_layers: str | None = _layers_option("decoder self-attention")


AGGREGATION = Seam(
    "aggregation", "linear", "how the outputs of the heads become one vector", LayerOptions
)
"""Builders return None for the output projection, or a module in its place: from concatenated head
outputs (B, T, C) to (B, T, C). With ``sees_input = True`` it also gets the layer's input."""


def _projection(options, place) -> None:
    """Keep the output projection."""


AGGREGATION.register(Method("linear", "linear (concatenate and project)", _projection, stock=True))


DROPHEAD = Seam("drophead_method", "independent", "how --drophead drops heads")
"""Builders return None, or a module that zeroes some head outputs of (B, H, T, D), called in
training only. fairseq calls its ``set_num_updates`` if it has one."""
