"""What the report's view of single heads is made of."""

import base64
import json

import numpy as np
import pytest
import torch

from diverse_mha.analysis.run import Analysis
from diverse_mha.analysis.sentence import Attention, SentenceAttention
from diverse_mha.analysis.view import TOKENS, view_data


def test_weights_are_bytes_and_a_head_has_its_mean_over_the_others():
    weights = {n: torch.rand(3, 70, 5) for n in (1, 2)}
    words = [f"word{n}" for n in range(70)], ["a", "b", "c", "d", "e"]
    pairs = [[1, 0.1, 0.2], [0.1, 1, 0.4], [0.2, 0.4, 1]]
    layer = {"cka": {"pairs": pairs}, "svcca": None, "importance": {"heads": [0.1, -0.2, 0.3]}}
    entry = {"heads": 3, "layers": {"1": layer, "2": layer}}
    found = {"name": "m", "components": {"cross": entry}, "summary": layer}
    sentence = SentenceAttention(7, {"cross": Attention(*words, weights)})
    made = view_data([Analysis(found, {}, [sentence])])
    (model,) = made["models"]
    maps = model["components"]["cross"]["maps"]
    assert maps["cka"][1] == pytest.approx([0.15, 0.25, 0.3])
    assert maps["svcca"] == [[None] * 3] * 2 and maps["importance"][0] == [0.1, -0.2, 0.3]
    assert [*made["measures"]] == ["cka", "svcca", "importance"]
    (shown,) = model["sentences"]
    kept = shown["components"]["cross"]
    assert (
        shown["number"] == 7 and kept["queries"] == words[0][:TOKENS] and kept["keys"] == words[1]
    )
    stored = np.frombuffer(base64.b64decode(kept["weights"]), np.uint8).reshape(2, 3, TOKENS, 5)
    expected = torch.stack([*weights.values()])[:, :, :TOKENS].numpy()
    assert np.abs(stored / 255 - expected).max() <= 0.5 / 255 + 1e-6


def test_six_layers_of_eight_heads_and_ten_sentences_are_small():
    words = ["word"] * 30
    maps = Attention(words, words, {n: torch.rand(8, 30, 30) for n in range(1, 7)})
    entry = {"heads": 8, "layers": {str(n): {} for n in range(1, 7)}}
    names = ("encoder", "cross", "decoder")
    found = {"name": "m", "components": dict.fromkeys(names, entry), "summary": {}}
    sentences = [SentenceAttention(n, dict.fromkeys(names, maps)) for n in range(10)]
    assert len(json.dumps(view_data([Analysis(found, {}, sentences)]))) < 1.8e6  # bytes
