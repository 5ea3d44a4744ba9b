"""Attention with open heads for any torch model. No fairseq."""

from diverse_mha.attention.core import Attended
from diverse_mha.attention.multihead import MultiheadAttention
from diverse_mha.attention.seams import AGGREGATION, DROPHEAD, LOGITS, LogitMap
from diverse_mha.attention.states import (
    STATE_NAMES,
    HeadStates,
    Wanted,
    check_state_names,
    wanted_of,
)

__all__ = [
    "AGGREGATION",
    "DROPHEAD",
    "LOGITS",
    "STATE_NAMES",
    "Attended",
    "HeadStates",
    "LogitMap",
    "MultiheadAttention",
    "Wanted",
    "check_state_names",
    "wanted_of",
]
