"""Cascaded logits: a layer adds the logits of the layer before (Zheng et al. 2021)."""

from diverse_mha.methods.coda.factory import CASCADES, build_cascade
from diverse_mha.methods.coda.modules import NetworkCascade, NoCascade, ResidualCascade

__all__ = [
    "CASCADES",
    "NetworkCascade",
    "NoCascade",
    "ResidualCascade",
    "build_cascade",
]
