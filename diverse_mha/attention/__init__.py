"""Attention that returns head states, for any torch model; it does not need fairseq."""

from diverse_mha.attention.core import (
    STATE_NAMES,
    Attended,
    HeadStates,
    Wanted,
    check_state_names,
    wanted_of,
)
from diverse_mha.attention.multihead import MultiheadAttention
from diverse_mha.attention.registries import (
    AGGREGATION,
    DROPHEAD,
    LOGITS,
    PROJECTIONS,
    LogitMap,
    ProjectionMap,
)

__all__ = [
    "AGGREGATION",
    "DROPHEAD",
    "LOGITS",
    "PROJECTIONS",
    "STATE_NAMES",
    "Attended",
    "HeadStates",
    "LogitMap",
    "MultiheadAttention",
    "ProjectionMap",
    "Wanted",
    "check_state_names",
    "wanted_of",
]
