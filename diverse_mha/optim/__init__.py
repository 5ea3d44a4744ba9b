"""Optimisers registered with fairseq."""

from diverse_mha.optim import fused_adam  # noqa: F401
