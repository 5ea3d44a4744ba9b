"""Pools the positions of a sentence into one vector."""

import math

import torch
from torch import Tensor, nn

POOLINGS = ("mean", "queries")


class MeanPooling(nn.Module):
    """Mean over the real positions, of width C ``embed_dim``: sum_s x_s / S.

    Attributes:
        output_dim: width of the vector, C.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.output_dim = embed_dim

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:
        """Pool sentences (B, S, C) to (B, C); padding (B, S), True = padding, alone gives 0."""
        real = (~padding_mask).unsqueeze(-1)  # (B, S, 1)
        total = x.masked_fill(~real, 0.0).sum(dim=1)  # (B, C)
        return total / real.sum(dim=1).clamp(min=1)


class QueryPooling(nn.Module):
    """Attention of trainable queries to the real positions, one vector a query.

    a_k = softmax over s of q_k . x_s / sqrt(C); vector k = sum_s a_ks x_s; the vectors are
    concatenated. Li et al. 2021, section 4.3, take two queries ("two trainable queries to obtain
    the fixed-size representation") and give no equation. C is ``embed_dim``, K the number of
    ``queries``.

    Attributes:
        output_dim: width of the vector, K * C.
    """

    def __init__(self, embed_dim: int, queries: int):
        super().__init__()
        self.output_dim = queries * embed_dim
        # Queries as long as layer-normalised positions: first weights are neither even nor sharp.
        self.queries = nn.Parameter(torch.randn(queries, embed_dim))  # (K, C)

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:
        """Pool sentences (B, S, C) to (B, K * C).

        Padding (B, S), True = padding, is left out; a sentence of padding alone gives its mean.
        """
        scores = x @ self.queries.t() / math.sqrt(x.size(-1))  # (B, S, K)
        # Finite, for rows of padding alone.
        scores = scores.float().masked_fill(padding_mask.unsqueeze(-1), -1e4)
        weights = scores.softmax(dim=1).type_as(x)  # (B, S, K)
        return (weights.transpose(1, 2) @ x).flatten(1)  # (B, K, C) to (B, K * C)
