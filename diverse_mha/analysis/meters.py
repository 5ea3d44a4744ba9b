"""Measures of one attention module, accumulated over batches."""

from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from diverse_mha.analysis.disagreement import disagreement_sums
from diverse_mha.attention import HeadStates
from diverse_mha.measures.attention_weights import divergence_sums, entropy_sums
from diverse_mha.measures.moments import Moments
from diverse_mha.measures.similarity import (
    FEWEST,
    cka_from_scatter,
    kept_directions,
    svcca_from_scatter,
)
from diverse_mha.measures.unbiased import NormMoments, unbiased_cka

# Head states that each measure needs.
MEASURES = {
    "cka": ("outputs",),
    "svcca": ("outputs",),
    "jsd": ("weights",),
    "entropy": ("weights",),
    "disagreement": ("values", "weights", "outputs"),
    "importance": (),  # in importance.py
    "importance-gradient": (),
}
DEFAULT_MEASURES = ("cka", "svcca", "jsd", "entropy", "disagreement")


def real_rows(states: HeadStates) -> Tensor:
    """Return the outputs of real positions: (N, H * D)."""
    rows = states.outputs.transpose(1, 2).flatten(2)  # (B, T, H * D)
    padding = states.query_padding_mask
    return rows.flatten(0, 1) if padding is None else rows[~padding]


class ModuleMeter:
    """Measures of the heads of one module.

    CKA and SVCCA are of the heads' outputs at the real query positions (Yun et al. 2021,
    section 3), from moments; the divergence is of their attention weights. ``measures`` are keys
    of ``MEASURES``, ``threshold`` is the share of the variance that SVCCA keeps.
    """

    def __init__(self, measures: tuple[str, ...], threshold: float):
        self.measures = measures
        self.threshold = threshold
        self.num_heads = 0
        self.moments: Moments | None = None
        self._norms: NormMoments | None = None
        self._divergence: Tensor | float = 0.0
        self._sentences = 0
        self._entropy: Tensor | float = 0.0
        self._sharp: Tensor | float = 0.0
        self._disagreement = np.zeros((3, 3))

    def update(self, states: HeadStates) -> None:
        """Add a batch with the states that the measures need."""
        self.num_heads = states.outputs.size(1)
        rows = real_rows(states)
        attention = states.weights, states.query_padding_mask, states.key_padding_mask
        if self.moments is None:
            self.moments = Moments(rows.size(1), rows.device)
            self._norms = NormMoments(self.num_heads)
        self.moments.update(rows)
        if "cka" in self.measures:
            self._norms.update(rows)
        if "jsd" in self.measures:
            total, _, sentences = divergence_sums(*attention)
            self._divergence = self._divergence + total.cpu()
            self._sentences += sentences
        if "entropy" in self.measures:
            entropy, sharp, _ = entropy_sums(*attention)
            self._entropy = self._entropy + entropy.cpu()
            self._sharp = self._sharp + sharp.cpu()
        if "disagreement" in self.measures:
            self._disagreement += disagreement_sums(states)

    @property
    def positions(self) -> int:
        """Number of real query positions so far."""
        return self.moments.count

    def result(self) -> dict[str, dict]:
        """Return the measures but disagreement, ready for JSON.

        ``{"cka": {"mean": m, "pairs": (H, H) nested lists, "unbiased_mean", "pairs_unbiased"},
        "svcca": {..., "top_mean", "pairs_top", "coefficients": {"1-2": [...]}, "kept": [k of each
        head], "threshold"}, "jsd": {"mean", "per_row", "pairs", "pairs_per_row"}, "entropy":
        {"mean", "heads", "share_above_0.95", "heads_share_above_0.95"}}``.
        A mean over pairs i < j is None with one head; all of a similarity is None where there are
        too few positions for it: two, or for SVCCA no more than the directions kept.
        """
        blocks = split_heads(self.moments.scatter().cpu(), self.num_heads)
        found = {
            "cka": lambda: self._cka(blocks) if self.positions >= FEWEST else None,
            "svcca": lambda: svcca_pairs(blocks, self.positions, self.threshold),
            "jsd": self._jsd,
            "entropy": self._sharpness,
        }
        return {measure: found[measure]() for measure in self.measures if measure in found}

    def disagreement(self) -> np.ndarray:
        """Return D and D off the diagonal of each score, (3, 2)."""
        return self._disagreement[:, :2] / self._disagreement[:, 2:]

    def _cka(self, blocks: Tensor) -> dict:
        """Return CKA of every pair, biased and, from four positions on, unbiased."""
        own = blocks.diagonal(dim1=0, dim2=1).permute(2, 0, 1)  # (H, D, D)
        biased = cka_from_scatter(own.unsqueeze(1), blocks, own.unsqueeze(0))
        pairs, mean = None, None
        if self.positions > FEWEST:
            unbiased = unbiased_cka(blocks, self._norms.result(self.moments).cpu(), self.positions)
            pairs, mean = unbiased.tolist(), mean_of_pairs(unbiased)
        return {
            "mean": mean_of_pairs(biased),
            "pairs": biased.tolist(),
            "unbiased_mean": mean,
            "pairs_unbiased": pairs,
        }

    def _jsd(self) -> dict:
        by_sentence, by_row = self._divergence / self._sentences, self._divergence / self.positions
        return {
            "mean": mean_of_pairs(by_sentence),
            "per_row": mean_of_pairs(by_row),
            "pairs": by_sentence.tolist(),
            "pairs_per_row": by_row.tolist(),
        }

    def _sharpness(self) -> dict:
        by_head, shares = self._entropy / self.positions, self._sharp / self.positions
        return {
            "mean": float(by_head.mean()),
            "heads": by_head.tolist(),
            "share_above_0.95": float(shares.mean()),
            "heads_share_above_0.95": shares.tolist(),
        }


def split_heads(scatter: Tensor, num_heads: int) -> Tensor:
    """Cut (H * D, H * D) into the blocks of pairs of heads, (H, H, D, D)."""
    width = scatter.size(0) // num_heads
    return scatter.view(num_heads, width, num_heads, width).transpose(1, 2)


def mean_of_pairs(matrix: Tensor) -> float | None:
    """Return the mean above the diagonal of (H, H); None with one head."""
    size = matrix.size(0)
    i, j = torch.triu_indices(size, size, 1)
    return float(matrix[i, j].mean()) if size > 1 else None


def svcca_pairs(blocks: Tensor, count: int, threshold: float) -> dict | None:
    """Return SVCCA of every pair of heads from scatter blocks (H, H, D, D)."""
    num_heads = blocks.size(0)
    kept = [kept_directions(blocks[h, h], threshold) for h in range(num_heads)]
    # With itself a head has coefficients of 1, unless it does not vary.
    pairs = torch.diag(torch.tensor([float(k.size(1) > 0) for k in kept], dtype=torch.float64))
    top_pairs = pairs.clone()
    coefficients = {}
    for i, j in combinations(range(num_heads), 2):
        found = svcca_from_scatter(kept[i], blocks[i, j], kept[j], count)
        if found is None:
            return None
        pairs[i, j] = pairs[j, i] = found.mean
        top_pairs[i, j] = top_pairs[j, i] = found.top_mean
        coefficients[f"{i + 1}-{j + 1}"] = found.coefficients.tolist()
    return {
        "mean": mean_of_pairs(pairs),
        "top_mean": mean_of_pairs(top_pairs),
        "pairs": pairs.tolist(),
        "pairs_top": top_pairs.tolist(),
        "coefficients": coefficients,
        "kept": [k.size(1) for k in kept],
        "threshold": threshold,
    }
