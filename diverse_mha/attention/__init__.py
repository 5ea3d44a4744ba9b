"""Attention with open heads for any torch model, its masks, and the record of its heads.

Nothing in this folder imports fairseq; ``diverse_mha.models.attention`` is fairseq's.
Every module in it is imported here, so a file with a method of its own registers it by lying here.
"""

from diverse_mha.attention.core import Attended
from diverse_mha.attention.drophead import DROPHEAD, drop_heads
from diverse_mha.attention.logits import LOGITS, LogitMap
from diverse_mha.attention.multihead import MultiheadAttention
from diverse_mha.attention.states import (
    STATE_NAMES,
    HeadStates,
    Wanted,
    check_state_names,
    wanted_of,
)
from diverse_mha.common.methods import import_siblings

__all__ = [
    "DROPHEAD",
    "LOGITS",
    "STATE_NAMES",
    "Attended",
    "HeadStates",
    "LogitMap",
    "MultiheadAttention",
    "Wanted",
    "check_state_names",
    "drop_heads",
    "wanted_of",
]

import_siblings(__name__, __path__)
