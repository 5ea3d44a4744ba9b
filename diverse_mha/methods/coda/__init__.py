"""Cascaded logits: a layer adds the logits of the layer before (Zheng et al. 2021)."""

from diverse_mha.methods.coda.cascade import (
    CASCADES,
    NetworkCascade,
    NoCascade,
    ResidualCascade,
    build_cascade,
)

__all__ = [
    "CASCADES",
    "NetworkCascade",
    "NoCascade",
    "ResidualCascade",
    "build_cascade",
]
