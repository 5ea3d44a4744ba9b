"""The models; importing this registers them with fairseq."""

from diverse_mha.models.translation import DiverseTransformer

__all__ = ["DiverseTransformer"]
