"""The aggregation seam: how the outputs of the heads become one vector."""

from dataclasses import dataclass

from diverse_mha.common.methods import Method, Seam
from diverse_mha.common.options import option


def _layers_option(component: str):
    return option(
        None,
        f"{component} layers whose heads are aggregated by --aggregation: numbers from 1 "
        "separated by commas, all, or none; default: none",
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
