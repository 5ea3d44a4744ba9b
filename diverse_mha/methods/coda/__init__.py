"""Cascaded logits: how a layer takes up those of the layer before (Zheng et al. 2021)."""

from diverse_mha.methods.coda.factory import CASCADES, build_cascade
from diverse_mha.methods.coda.modules import Cascade, NetworkCascade, NoCascade, ResidualCascade
from diverse_mha.methods.coda.network import HeadNetwork

__all__ = [
    "CASCADES",
    "Cascade",
    "HeadNetwork",
    "NetworkCascade",
    "NoCascade",
    "ResidualCascade",
    "build_cascade",
]
