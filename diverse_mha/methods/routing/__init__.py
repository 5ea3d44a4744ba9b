"""Routing-by-agreement, which replaces the output projection (Li et al. 2021)."""

from diverse_mha.methods.routing.algorithms import em_routing, simple_routing
from diverse_mha.methods.routing.backend import fused_routing
from diverse_mha.methods.routing.routing import RoutingAggregation

__all__ = [
    "RoutingAggregation",
    "em_routing",
    "fused_routing",
    "simple_routing",
]
