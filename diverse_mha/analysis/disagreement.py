"""Scores exp(D) of Li et al. 2018, Tables 4 and 5, over a data set."""

import math

import numpy as np
from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.methods.disagreement import (
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)

SCORES = ("subspace", "position", "output")


def disagreement_sums(states: HeadStates) -> np.ndarray:
    """Return (3, 3): by score D times count, D off the diagonal times count, and count.

    Subspace and output are averaged over positions, position over sentences, as the paper's
    reported scores are (see ``disagreement_scores``). Divided by the count, sums of batches do not
    depend on how they are cut.

    The sums of Li et al. hold the pairs i = j, where a cosine is 1 whatever the heads do. Over the
    H (H - 1) pairs i != j alone perpendicular heads score 1; with one head that is NaN.
    """
    queries, keys = states.query_padding_mask, states.key_padding_mask
    values = []
    for form in ((), ("off-diagonal",)):
        subspace = subspace_disagreement(states.values, keys, form=form)
        position = position_disagreement(states.weights, queries, keys, "sentence", form)
        output = output_disagreement(states.outputs, queries, form=form)
        values.append([float(subspace), float(position), float(output)])
    if states.outputs.size(1) == 1:
        values[1] = [math.nan] * 3
    counts = [_real(keys, states.values), len(states.weights), _real(queries, states.outputs)]
    return np.array([*values, [1] * 3]).T * np.array(counts)[:, None]


def disagreement_result(d: np.ndarray) -> dict[str, dict]:
    """Return ``{score: {"layers", "all", "off_diagonal": {"layers", "all"}}}`` of a component.

    ``layers`` holds exp(D) of each layer (Table 5), ``all`` exp of D averaged over the layers
    (Table 4). In (0, 1], higher = more diverse. ``off_diagonal``: the same over the pairs i != j,
    in (0, exp(1 / (H - 1))]; None with one head.

    Args:
        d: (layers, 3, 2), D and D off the diagonal of each score.
    """
    return {
        score: _scores(d[:, place, 0]) | {"off_diagonal": _scores(d[:, place, 1])}
        for place, score in enumerate(SCORES)
    }


def _scores(d: np.ndarray) -> dict:
    if np.isnan(d).any():
        return {"layers": [None] * len(d), "all": None}
    return {"layers": np.exp(d).tolist(), "all": math.exp(d.mean())}


def _real(padding_mask: Tensor | None, x: Tensor) -> int:
    """Return the number of real positions of states (B, H, L, D)."""
    return x.size(0) * x.size(2) if padding_mask is None else int((~padding_mask).sum())
