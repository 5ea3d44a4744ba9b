"""Talking heads equal a slow reference, and decode with the scores of a full pass."""

import math

import pytest
import torch

from diverse_mha.methods.talking_heads import TalkingHeads
from diverse_mha.models.attention import DiverseAttention
from tests.toy import build_ours, check_beam_scores, toy_batch

C, H, B, T = 6, 3, 2, 4


def talking(seed: int | None = 5, **options):
    """Build a model with random maps, or identities if the seed is None."""
    model = build_ours(logits="talking-heads", **options)
    if seed is not None:
        torch.manual_seed(seed)
        for name, parameter in model.named_parameters():
            if "cascade" in name:
                torch.nn.init.normal_(parameter, std=0.5)
    return model


def slow(q, k, v, masked, before, after):
    """Return the outputs of Shazeer et al. 2020 for one sentence, from lists (H, T, D).

    ``masked`` is a list (T, T); ``before`` and ``after`` are the maps (H, H) over heads.
    """
    heads, size = range(H), len(q[0][0])
    logits = [
        [[sum(a * b for a, b in zip(q[h][t], k[h][s], strict=True)) / math.sqrt(size)
          for s in range(T)] for t in range(T)] for h in heads
    ]  # fmt: skip
    outputs = [[[0.0] * size for _ in range(T)] for _ in heads]
    for t in range(T):
        seen = [s for s in range(T) if not masked[t][s]]
        weights = []
        for head in heads:
            mixed = [sum(logits[h][t][s] * before[h][head] for h in heads) for s in seen]
            total = sum(map(math.exp, mixed))
            weights.append([math.exp(x) / total for x in mixed])
        for head in heads:
            for place, s in enumerate(seen):
                share = sum(weights[h][place] * after[h][head] for h in heads)
                for d in range(size):
                    outputs[head][t][d] += share * v[head][s][d]
    return outputs


def test_talking_heads_equal_the_equations_number_by_number():
    torch.manual_seed(2)
    seam = TalkingHeads(H).double()
    for parameter in seam.parameters():
        torch.nn.init.normal_(parameter)
    module = DiverseAttention(C, H, self_attention=True, logit_map=seam).double().eval()
    x = torch.randn(B, T, C, dtype=torch.float64)
    wanted = ("queries", "keys", "values", "weights", "outputs")
    states = module(x, None, causal=True, wanted=wanted).states
    masked = torch.ones(T, T).triu(1).bool().tolist()
    maps = seam.before.tolist(), seam.after.tolist()
    for b in range(B):
        q, k, v = (y[b].tolist() for y in (states.queries, states.keys, states.values))
        expected = torch.tensor(slow(q, k, v, masked, *maps), dtype=torch.float64)
        torch.testing.assert_close(states.outputs[b], expected, rtol=1e-9, atol=1e-12)
    # Recorded weights are those before the second map, so their rows sum to 1.
    torch.testing.assert_close(states.weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64))


def test_gradients_pass_gradcheck():
    torch.manual_seed(3)
    logits = torch.randn(1, H, 2, 3, dtype=torch.float64, requires_grad=True)
    maps = [torch.randn(H, H, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def call(x, before, after):
        seam = TalkingHeads(H)
        del seam.before, seam.after
        seam.before, seam.after = before, after
        return seam.after_softmax(seam(x, None).softmax(-1))

    assert torch.autograd.gradcheck(call, (logits, *maps))


@pytest.mark.parametrize("training", [True, False])
def test_initial_outputs_are_those_without_talking_heads(training):
    plain, ours = build_ours().double(), talking(None).double()
    missing = ours.load_state_dict(plain.state_dict(), strict=False)
    assert len(missing.missing_keys) == 12 and not missing.unexpected_keys
    batch = toy_batch()["net_input"]
    outputs = [model.train(training)(**batch)[0] for model in (plain, ours)]
    torch.testing.assert_close(*outputs)


def test_every_map_gets_a_gradient():
    model = talking().train()
    model(**toy_batch()["net_input"])[0].square().mean().backward()
    maps = [p for name, p in model.named_parameters() if "cascade" in name]
    assert len(maps) == 12 and all(p.grad.abs().sum() > 0 for p in maps)


def test_beams_are_scored_as_in_the_full_pass():
    check_beam_scores(talking().eval(), toy_batch())


def test_options_of_cascades_are_refused():
    with pytest.raises(ValueError, match="--attention-noise 1.0 has no effect with --logits talk"):
        talking(attention_noise=1.0)
    with pytest.raises(ValueError, match=r"noise 1.0 .* or reset it to 0.0"):
        build_ours("transformer_coda", logits="talking-heads")
    build_ours("transformer_coda", logits="talking-heads", attention_noise=0.0)
    with pytest.raises(ValueError, match="num_heads is 0; expected a whole number, 1 or more"):
        TalkingHeads(0)
