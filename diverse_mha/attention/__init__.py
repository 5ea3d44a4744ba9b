"""The attention module, its masks and the record of its heads."""

from diverse_mha.attention.multihead import Attended, DiverseAttention
from diverse_mha.attention.states import STATE_NAMES, HeadStates, check_state_names

__all__ = ["STATE_NAMES", "Attended", "DiverseAttention", "HeadStates", "check_state_names"]
