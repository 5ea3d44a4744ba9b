"""How the outputs of the heads become one vector: concatenate and project, or routing.

Nothing in this folder imports fairseq. Every module in it is imported here, so a file with a
method of its own registers it by lying here.
"""

from diverse_mha.common.methods import import_siblings

from .em import em_routing
from .fused import fused_routing
from .routing import RoutingAggregation
from .seam import AGGREGATION
from .simple import SOFTMAX_OVER, simple_routing

__all__ = [
    "AGGREGATION",
    "SOFTMAX_OVER",
    "RoutingAggregation",
    "em_routing",
    "fused_routing",
    "simple_routing",
]

import_siblings(__name__, __path__)
