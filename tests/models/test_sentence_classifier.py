"""The sentence classifier: padding, groups by length, head states, options."""

import random

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

from diverse_mha.models import sentence_classifier
from diverse_mha.models.sentence_classifier import (
    SentenceClassifier,
    feed_forward,
    split_by_length,
)
from tests.toy import toy_task as translation_task
from tests.toy_classification import LABELS, build_classifier, toy_batch

SEAMS = {
    "plain": {},
    "routing": {"aggregation": "em-routing", "aggregation_encoder_layers": "all"},
    "cascade": {"logits": "mlp"},
    "queries": {"pooling": "queries", "classifier_layers": 3},
    "pre-norm": {"encoder_normalize_before": True},
    "drophead": {"drophead": 0.5},
}


@pytest.mark.parametrize("suffix", ["", "_tiny", "_logic", "_probing"])
def test_every_shape_is_registered_without_decoder_options(suffix):
    name = "sentence_classifier" + suffix
    assert issubclass(ARCH_MODEL_REGISTRY[name], SentenceClassifier)
    options = {f for f in vars(MODEL_DATACLASS_REGISTRY[name]()) if f.startswith("decoder_")}
    assert not options  # the model has only an encoder


@pytest.mark.parametrize("sentences", [1, 2])
@pytest.mark.parametrize("seams", SEAMS)
def test_padding_and_other_sentences_have_no_effect(seams, sentences):
    model = build_classifier(sentences=sentences, **SEAMS[seams])
    model.eval()
    batch, wide = (toy_batch(sentences=sentences, extra_padding=n)["net_input"] for n in (0, 5))
    scores, extra = model(**batch)
    assert scores.shape == (4 // sentences, len(LABELS)) and extra == {}
    torch.testing.assert_close(model(**wide)[0], scores)
    one = {name: tensor[:sentences] for name, tensor in batch.items()}
    torch.testing.assert_close(model(**one)[0], scores[:1])


@pytest.mark.parametrize("seams", SEAMS)
def test_encoding_in_groups_by_length_gives_the_same_outputs(seams):
    model = build_classifier(**SEAMS[seams])
    model.eval()
    tokens = toy_batch(lengths=(6, 2, 3, 6))["net_input"]["src_tokens"]
    calls = []
    model.encoder.register_forward_hook(lambda _, args, __: calls.append(tuple(args[0].shape)))
    scores = model(tokens)[0]
    assert calls == [(2, 6), (2, 3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentence_classifier, "split_by_length", lambda lengths: None)
        expected = model(tokens)[0]
    assert calls[2:] == [(4, 6)]
    torch.testing.assert_close(scores, expected)
    weight = torch.randn_like(scores)
    ours, theirs = (
        torch.autograd.grad((x * weight).sum(), model.parameters(), allow_unused=True)
        for x in (scores, expected)
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    "options, passes",
    [
        ({"drophead": 0.5, "drophead_mask": "batch"}, 1),
        ({"encoder_layerdrop": 0.5}, 1),
        ({"drophead": 0.5}, 2),
        ({}, 2),
    ],
)
def test_draws_for_a_whole_batch_are_made_in_one_pass(options, passes):
    """A term with weight 0 asks for head states, which must not change what is drawn."""
    still = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = build_classifier(**still, **options).double()
    tokens = toy_batch(lengths=(6, 2, 3, 6))["net_input"]["src_tokens"]
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append(1))
    model.train()
    for seed in range(4 if passes == 1 else 1):
        calls.clear()
        torch.manual_seed(seed)
        scores = model(tokens)[0]
        assert len(calls) == passes
        if passes == 1:
            torch.manual_seed(seed)
            with_states = model(tokens, return_head_states=("outputs",))[0]
            torch.testing.assert_close(scores, with_states)
    model.eval()
    calls.clear()
    model(tokens)
    assert len(calls) == 2


def test_groups_by_length_have_the_fewest_positions():
    generator = random.Random(1)
    for _ in range(200):
        lengths = [generator.randint(1, 12) for _ in range(generator.randint(1, 9))]
        n, longest = len(lengths), max(lengths)
        ordered = sorted(lengths, reverse=True)
        fewest = min((s * longest + (n - s) * ordered[s] for s in range(1, n)), default=n * longest)
        groups = split_by_length(torch.tensor(lengths))
        if fewest >= 0.9 * n * longest or n == 1:
            assert groups is None
            continue
        long, short = (rows.tolist() for rows in groups)
        assert sorted(long + short) == list(range(n)), "every row is in exactly one group"
        assert min(lengths[row] for row in long) >= max(lengths[row] for row in short)
        assert sum(len(g) * max(lengths[row] for row in g) for g in (long, short)) == fewest


def test_sentences_of_a_pair_are_encoded_separately():
    model = build_classifier(pooling="queries", pooling_queries=3)
    model.eval()
    tokens = toy_batch(lengths=(5, 3))["net_input"]["src_tokens"]

    def vector(row):
        encoded = model.encoder(row[None])
        return model.pooling(
            encoded["encoder_out"][0].transpose(0, 1), encoded["encoder_padding_mask"][0]
        )

    joined = torch.cat([vector(tokens[0]), vector(tokens[1, :3])], dim=1)
    assert joined.shape == (1, 2 * 3 * 16)
    torch.testing.assert_close(model(tokens)[0], model.classifier(joined))
    swapped = model(tokens.flip(0))[0]
    assert not torch.allclose(swapped, model(tokens)[0])  # the order of sentences matters


@pytest.mark.parametrize("seams", SEAMS)
def test_head_states_cover_all_sentences_of_a_batch(seams):
    model = build_classifier(**SEAMS[seams])
    model.eval()
    batch = toy_batch()["net_input"]
    scores, extra = model(**batch, return_head_states=("outputs", "weights"))
    torch.testing.assert_close(scores, model(**batch)[0])
    assert list(extra["head_states"]) == ["encoder"] and len(extra["head_states"]["encoder"]) == 2
    for states in extra["head_states"]["encoder"]:
        assert states.outputs.shape == (4, 4, 6, 4)  # (n * B, H, S, D)
        assert states.weights.shape == (4, 4, 6, 6)
        assert states.key_padding_mask.tolist() == batch["src_tokens"].eq(1).tolist()
    with pytest.raises(ValueError, match="heads"):
        model(**batch, return_head_states=("heads",))


def test_the_classifier_has_the_given_number_of_layers():
    widths = [
        (layer.in_features, layer.out_features)
        for layer in feed_forward(8, 5, 3, layers=3, dropout=0.1)
        if isinstance(layer, torch.nn.Linear)
    ]
    assert widths == [(8, 5), (5, 5), (5, 3)]
    assert len(feed_forward(8, 5, 3, layers=1, dropout=0.1)) == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pooling_queries": 3}, "--pooling-queries 3 has no effect with --pooling mean"),
        ({"pooling": "queries", "pooling_queries": 0}, "--pooling-queries 0: must be 1 or more"),
        ({"classifier_layers": 0}, "--classifier-layers 0: must be 1 or more"),
        (
            {"aggregation": "em-routing", "aggregation_decoder_layers": "1"},
            "--aggregation-decoder-layers 1: the model has no decoder attention",
        ),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build_classifier(**options)


def test_another_task_is_refused():
    config = MODEL_DATACLASS_REGISTRY["sentence_classifier_tiny"]()
    with pytest.raises(ValueError, match="needs --task sentence_classification"):
        SentenceClassifier.build_model(config, translation_task())
