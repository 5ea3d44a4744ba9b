"""Attention with open heads for any torch model. No fairseq."""

from diverse_mha.attention.core import (
    STATE_NAMES,
    Attended,
    HeadStates,
    Wanted,
    check_state_names,
    wanted_of,
)
from diverse_mha.attention.multihead import MultiheadAttention
from diverse_mha.attention.registries import AGGREGATION, DROPHEAD, LOGITS, LogitMap

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
