"""The attention of a chosen sentence, and the tokens beside it."""

import torch

from diverse_mha.analysis.collect import Selection
from diverse_mha.analysis.sentence import SentenceAttention, find_sentence
from tests.toy import build_ours, toy_batch, toy_task


def test_tokens_and_weights_of_one_sentence_without_padding():
    batch = toy_batch() | {"id": torch.tensor([7, 3, 5])}
    with torch.no_grad():
        model = build_ours().eval()
        states = model(**batch["net_input"], return_head_states=("weights",))[1]["head_states"]
    place = find_sentence(batch, 3)
    assert place == 1 and find_sentence(batch, 4) is None and find_sentence(batch, None) is None
    selection = Selection(("encoder", "cross", "decoder"), (2,))
    taken = SentenceAttention.take(toy_task(), batch, place, states, selection)
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
