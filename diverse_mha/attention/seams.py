"""The three open seams of attention: logits, aggregation, Drophead."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from diverse_mha.common.methods import Method, Seam
from diverse_mha.common.options import option


@dataclass
class LogitsOptions:
    """The options of the seam itself."""

    logits_on: str | None = option(
        None,
        "components in which --logits and --attention-noise act: comma list of encoder, cross, "
        "decoder; default: all",
    )


LOGITS = Seam(
    "logits",
    "none",
    "what a layer's attention logits get from the layer before",
    LogitsOptions,
)
"""Builders return a ``LogitMap``, or None where there is nothing to do; they see the number of the
layer, and so what the first one lacks."""


class LogitMap(nn.Module, ABC):
    """What sits between q.k and the softmax of an attention module."""

    def acts(self, previous: Tensor | None) -> bool:
        """Whether a pass needs the map, and so explicit logits.

        Args:
            previous: what the layer before handed on, or None.
        """
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
        """Return the logits that the mask is added to, and that a cascade hands on.

        Args:
            logits: (B, H, T, S), scaled q.k of this layer, without any mask added.
            previous: (B, H, T, S), what the layer before handed on, or None.
            masked: bool, broadcasts to (B, H, T, S), True = may not attend.
            queries: (B, H, T, D), not scaled.
            keys: (B, H, S, D).

        Returns:
            (B, H, T, S).
        """

    def hand_on(self, logits: Tensor, previous: Tensor | None) -> Tensor:
        """Return what the next layer gets as ``previous``.

        Args:
            logits: (B, H, T, S), what ``forward`` returned.
            previous: (B, H, T, S), what the layer before handed on, or None.

        Returns:
            (B, H, T, S); here the logits.
        """
        return logits

    def after_softmax(self, weights: Tensor) -> Tensor:
        """Return what the values are weighed by.

        Args:
            weights: (B, H, T, S), the softmax, which is what is recorded.

        Returns:
            (B, H, T, S), before dropout.
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
    """In which layers a method other than the default sits."""

    aggregation_encoder_layers: str | None = _layers_option("encoder self-attention")
    aggregation_cross_layers: str | None = _layers_option("encoder-decoder attention")
    aggregation_decoder_layers: str | None = _layers_option("decoder self-attention")


AGGREGATION = Seam(
    "aggregation", "linear", "how the outputs of the heads become one vector", LayerOptions
)
"""Builders return None for the output projection that attention has, or a module that takes its
place: from the concatenated outputs of the heads (B, T, C) to (B, T, C). With a class attribute
``sees_input = True`` the module is called with the layer's input (B, T, C) as well."""


def _projection(options, place) -> None:
    """Nothing: attention has its output projection."""


AGGREGATION.register(Method("linear", "linear (concatenate and project)", _projection, stock=True))


DROPHEAD = Seam("drophead_method", "independent", "how --drophead drops heads")
"""Builders return None, or a module from the outputs of the heads (B, H, T, D) to the same with
some of them zeroed, called in training only; one with ``set_num_updates`` is told by fairseq."""
