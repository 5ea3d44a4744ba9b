"""How the outputs of the heads become one vector: concatenate and project, or routing.

Nothing in this folder imports fairseq.
"""

from .em import em_routing
from .factory import AGGREGATIONS, build_aggregation
from .fused import fused_routing
from .routing import RoutingAggregation
from .simple import SOFTMAX_OVER, simple_routing

__all__ = [
    "AGGREGATIONS",
    "SOFTMAX_OVER",
    "RoutingAggregation",
    "build_aggregation",
    "em_routing",
    "fused_routing",
    "simple_routing",
]
