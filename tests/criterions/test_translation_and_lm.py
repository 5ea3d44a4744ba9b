"""The translation criterion: fairseq's loss, plus weighted terms."""

from functools import partial

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

from tests.criterions.test_terms import TASK, criterion, run
from tests.toy import build_ours, toy_batch

ours = partial(criterion, label_smoothing=0.0, token_loss="auto")  # the options' defaults


@pytest.mark.parametrize("sentence_avg", [False, True])
@pytest.mark.parametrize("accuracy", [False, True])
@pytest.mark.parametrize("weight", [None, 0.0], ids=["off", "weight-0"])
def test_without_terms_the_loss_equals_that_of_fairseq(weight, accuracy, sentence_avg):
    model, batch = build_ours(), toy_batch()
    extra = {"token_loss": "stock"}  # the fused loss differs by rounding
    if weight is not None:
        extra |= {"disagreement": "output", "disagreement_weight": 0.0}
    extra |= {"sentence_avg": sentence_avg, "report_accuracy": accuracy}
    stock = LabelSmoothedCrossEntropyCriterion(TASK, sentence_avg, 0.1, 0, accuracy)
    loss, size, log, grads = run(ours(label_smoothing=0.1, **extra), model, batch)
    loss2, size2, log2, grads2 = run(stock, model, batch)
    assert torch.equal(loss, loss2) and size == size2
    assert {k: v for k, v in log.items() if not k.startswith("term")} == log2
    torch.testing.assert_close(grads, grads2, rtol=0, atol=0 if weight is None else 1e-9)


@pytest.mark.parametrize("how", ["stock", "auto"])
@pytest.mark.parametrize("prefix", [1, 3, 6])
def test_tokens_of_an_ignored_prefix_do_not_count(prefix, how):
    """In fairseq, tokens of the prefix count in the number by which the loss is divided."""
    model, batch = build_ours(), toy_batch(target_lengths=(4, 6, 2))
    tokens = [max(length - prefix, 0) for length in (4, 6, 2)]
    loss, size, log, _ = run(ours(ignore_prefix_size=prefix, token_loss=how), model, batch)
    stock = LabelSmoothedCrossEntropyCriterion(TASK, False, 0.0, prefix)
    torch.testing.assert_close(loss, run(stock, model, batch)[0])
    assert size == log["sample_size"] == log["ntokens"] == max(sum(tokens), 1)


def test_unreduced_losses_contain_no_terms():
    model, batch = build_ours(), toy_batch()
    per_token = run(ours(label_smoothing=0.1, disagreement="output"), model, batch, reduce=False)
    stock = run(LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1), model, batch, reduce=False)
    assert torch.equal(per_token[0], stock[0])
