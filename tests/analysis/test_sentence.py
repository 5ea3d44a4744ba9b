"""The attention of a chosen sentence, and the tokens beside it."""

import pytest
import torch

from diverse_mha.analysis.collect import Selection
from diverse_mha.analysis.sentence import SentenceAttention, check_sentence, find_sentences
from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import UserError
from tests.toy import build_ours, toy_batch, toy_task


def test_tokens_and_weights_of_one_sentence_without_padding():
    batch = toy_batch() | {"id": torch.tensor([7, 3, 5])}
    with torch.no_grad():
        model = build_ours().eval()
        states = model(**batch["net_input"], return_head_states=("weights",))[1]["head_states"]
    assert find_sentences(batch, range(4)) == [1] and find_sentences(batch, range(5, 9)) == [0, 2]
    selection = Selection(("encoder", "cross", "decoder"), (2,))
    taken = SentenceAttention.take(toy_task(), batch, 1, states, selection)
    words = toy_task().source_dictionary
    source = [words[int(n)] for n in batch["net_input"]["src_tokens"][1] if n != 1]
    target = [words[int(n)] for n in batch["target"][1] if n != 1]
    assert taken.number == 3 and len(source) == 3 and len(target) == 6
    assert taken.components["encoder"][:2] == (source, source)
    assert taken.components["cross"][:2] == (target, source), "what each position predicts"
    shifted = [target[-1], *target[:-1]]
    assert taken.components["decoder"][:2] == (shifted, shifted), "what each position reads"
    for component, attention in taken.components.items():
        assert list(attention.layers) == [2]
        weights = attention.layers[2]
        assert weights.shape == (4, len(attention.queries), len(attention.keys))
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:2]))
        if component == "decoder":
            assert (weights.triu(1) == 0).all()


def test_of_a_pair_the_first_sentence_is_shown():
    source = torch.tensor([[4, 5, 2], [6, 7, 2], [8, 9, 2], [10, 11, 2]])  # two pairs
    weights = torch.arange(4.0).view(4, 1, 1, 1).expand(4, 2, 3, 3)
    sample = {"id": torch.tensor([0, 1]), "net_input": {"src_tokens": source}}
    states = {"encoder": [HeadStates(weights=weights)]}
    taken = SentenceAttention.take(toy_task(), sample, 1, states, Selection())
    words = toy_task().source_dictionary
    assert taken.components["encoder"].queries == [words[n] for n in (8, 9, 2)]
    assert (taken.components["encoder"].layers[1] == 2).all()


def test_the_last_sentence_is_the_last_that_there_is():
    check_sentence(range(2, 12), [0, 1, 2], "valid")
    check_sentence(range(0), [], "valid")
    with pytest.raises(UserError, match="--sentence 3: 'valid' has sentences 0 to 2"):
        check_sentence(range(3, 4), [0, 1, 2], "valid")
