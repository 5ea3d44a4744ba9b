"""Data of the report's view of single heads."""

import base64
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from diverse_mha.analysis.results import Cka, Component, Model
from diverse_mha.analysis.sites import Selection
from diverse_mha.analysis.view import TOKENS, take_sentence, view_data
from diverse_mha.attention import HeadStates
from diverse_mha.attention.sites import HeadNumbers
from diverse_mha.evaluation.adapter import FairseqAdapter
from diverse_mha.evaluation.models import Loaded
from tests.toy import build_ours, toy_batch, toy_task


def stored(kept, layers, heads):
    shape = layers, heads, len(kept["queries"]), len(kept["keys"])
    return np.frombuffer(base64.b64decode(kept["weights"]), np.uint8).reshape(shape) / 255


def adapter(model, task):
    return FairseqAdapter(Loaded("x.pt", "ours", [model], task))


def sites(layers, heads):
    numbers = HeadNumbers.unpruned(heads)
    return [SimpleNamespace(component="encoder", number=n + 1, numbers=numbers)
            for n in range(layers)]  # fmt: skip


def test_view_has_tokens_and_weights_of_a_sentence_without_padding():
    batch = toy_batch() | {"id": torch.tensor([7, 3, 5])}
    with torch.no_grad():
        model = adapter(build_ours().eval(), toy_task())
        states = model.states(batch, ("weights",))
    taken = take_sentence(model, batch, 1, states, Selection(layers=(2,)).resolve(model.sites))
    words = toy_task().source_dictionary
    source = [words[int(n)] for n in batch["net_input"]["src_tokens"][1] if n != 1]
    target = [words[int(n)] for n in batch["target"][1] if n != 1]
    assert taken["number"] == 3 and len(source) == 3 and len(target) == 6
    shifted = [target[-1], *target[:-1]]
    sides = {
        "encoder": (source, source),
        "cross": (target, source),  # the word that each position predicts
        "decoder": (shifted, shifted),  # the word that each position reads
    }
    for component, (queries, keys) in sides.items():
        found = taken["components"][component]
        assert (found["queries"], found["keys"]) == (queries, keys)
        weights = stored(found, 1, 4)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=0.02)
        if component == "decoder":
            assert (np.triu(weights, 1) == 0).all()


def test_first_sentence_of_a_pair_and_first_tokens_are_shown():
    source = torch.tensor([[4, 5, 2], [6, 7, 2], [8, 9, 2], [10, 11, 2]])  # two pairs of sentences
    sample = {"id": torch.tensor([0, 1]), "net_input": {"src_tokens": source}}
    weights = torch.arange(4.0).view(4, 1, 1, 1).expand(4, 2, 3, 3) / 4
    states = {"encoder": [HeadStates(weights=weights)]}
    task = SimpleNamespace(source_dictionary=toy_task().source_dictionary, sentences=2)
    model = adapter(build_ours(), task)
    found = take_sentence(model, sample, 1, states, sites(1, 2))["components"]["encoder"]
    words = toy_task().source_dictionary
    assert found["queries"] == [words[n] for n in (8, 9, 2)]
    np.testing.assert_allclose(stored(found, 1, 2), 0.5, atol=0.5 / 255)
    sample["net_input"]["src_tokens"] = torch.full((2, 70), 4)
    states = {"encoder": [HeadStates(weights=torch.rand(2, 3, 70, 70))] * 2}
    task.sentences = 1
    found = take_sentence(model, sample, 1, states, sites(2, 3))["components"]["encoder"]
    assert len(found["queries"]) == len(found["keys"]) == TOKENS
    expected = states["encoder"][0].weights[1, :, :TOKENS, :TOKENS].numpy()
    for layer in stored(found, 2, 3):
        np.testing.assert_allclose(layer, expected, atol=0.5 / 255 + 1e-6)


def test_pair_measures_are_averaged_over_the_other_heads():
    pairs = [[1, 0.1, 0.2], [0.1, 1, 0.4], [0.2, 0.4, 1]]
    layer = {"cka": Cka(0.2, pairs, None, None), "svcca": None}
    components = {"cross": Component(3, 9, {"1": layer, "2": layer})}
    found = Model("m", "m.pt", "a", 1, components, layer)
    maps = view_data([(found, [])])["models"][0]["components"]["cross"]["maps"]
    assert maps["cka"][1] == pytest.approx([0.15, 0.25, 0.3]) and maps["svcca"] == [[None] * 3] * 2
