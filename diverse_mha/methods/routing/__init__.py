"""Routing-by-agreement in place of the output projection (Li et al. 2021)."""

from diverse_mha.methods.routing.em import em_routing
from diverse_mha.methods.routing.fused import fused_routing
from diverse_mha.methods.routing.routing import RoutingAggregation
from diverse_mha.methods.routing.simple import simple_routing

__all__ = [
    "RoutingAggregation",
    "em_routing",
    "fused_routing",
    "simple_routing",
]
