"""How the logits of a layer take up those of the layer before (Zheng et al. 2021).

Nothing in this folder imports fairseq.
"""

from .factory import CASCADES, build_cascade
from .modules import Cascade, NetworkCascade, NoCascade, ResidualCascade
from .network import HeadNetwork

__all__ = [
    "CASCADES",
    "Cascade",
    "HeadNetwork",
    "NetworkCascade",
    "NoCascade",
    "ResidualCascade",
    "build_cascade",
]
