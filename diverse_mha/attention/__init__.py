"""Attention with open heads for any torch model, its masks, and the record of its heads.

Nothing in this folder imports fairseq; ``diverse_mha.models.attention`` has fairseq's contract.
"""

from diverse_mha.attention.core import Attended
from diverse_mha.attention.drophead import drop_heads
from diverse_mha.attention.multihead import MultiheadAttention
from diverse_mha.attention.states import STATE_NAMES, HeadStates, check_state_names

__all__ = [
    "STATE_NAMES",
    "Attended",
    "HeadStates",
    "MultiheadAttention",
    "check_state_names",
    "drop_heads",
]
