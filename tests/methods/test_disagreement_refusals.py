"""Shapes, dtypes and names that the disagreement terms refuse."""

import pytest
import torch

from diverse_mha.methods.disagreement import position_disagreement
from tests.methods.inputs import padding, vectors
from tests.methods.test_disagreement import COSINE_TERMS, attention


@pytest.mark.parametrize("name, term", [("values", COSINE_TERMS[0]), ("outputs", COSINE_TERMS[1])])
def test_cosine_refusals(name, term):
    x = vectors()
    with pytest.raises(ValueError, match=rf"{name} has shape \(4, 5, 6\); expected 4 dim"):
        term(x[0])
    with pytest.raises(ValueError, match=rf"{name} has dtype torch.int64"):
        term(x.long())
    with pytest.raises(ValueError, match=rf"{name} has shape \(3, 0, 5, 6\), so no head"):
        term(x[:, :0])
    with pytest.raises(ValueError, match=r"padding_mask has shape \(5, 3\); expected \(3, 5\)"):
        term(x, torch.zeros(5, 3, dtype=torch.bool))
    with pytest.raises(
        ValueError, match=r"padding_mask has dtype torch.uint8; expected torch.bool"
    ):
        term(x, torch.zeros(3, 5, dtype=torch.uint8))


def test_position_refusals():
    weights = attention()
    with pytest.raises(ValueError, match=r"weights has shape \(3, 5, 6\); expected 4 dim"):
        position_disagreement(weights[:, 0])
    with pytest.raises(ValueError, match=r"reduction is 'mean'; expected one of \('query', 'sent"):
        position_disagreement(weights, reduction="mean")
    with pytest.raises(ValueError, match=r"query_padding_mask has shape \(3, 6\); expected \(3, 5"):
        position_disagreement(weights, padding([6, 6, 6], 6))
    with pytest.raises(ValueError, match=r"key_padding_mask has shape \(3, 5\); expected \(3, 6"):
        position_disagreement(weights, None, padding([5, 5, 5], 5))
