"""Loss and accuracies of classification, and their sums over workers."""

import math

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.logging import metrics

from diverse_mha.criterions.sentence_classification import SentenceClassificationWithDiversity
from tests.toy import toy_task as translation_task
from tests.toy_classification import build_classifier, toy_batch, toy_task

NAME = "sentence_classification_with_diversity"
BATCHES = [toy_batch(seed=seed, lengths=(5, 3, 4, 6, 2, 7)) for seed in (3, 4, 5)]


def build(groups=("1", "2", "3"), **options):
    config = CRITERION_DATACLASS_REGISTRY[NAME](**options)
    return SentenceClassificationWithDiversity.build_criterion(config, toy_task(groups=groups))


def reduced(logs) -> dict:
    """Return the numbers that fairseq logs."""
    with metrics.aggregate(new_root=True) as meters:
        SentenceClassificationWithDiversity.reduce_metrics(logs)
    return meters.get_smoothed_values()


def test_loss_and_accuracy_equal_a_reference_in_a_loop():
    model, criterion = build_classifier(), build()
    model.eval()
    criterion.eval()
    batch = BATCHES[0]
    loss, sample_size, log = criterion(model, batch)
    scores = model(**batch["net_input"])[0].tolist()
    nats, correct, by_group = 0.0, 0, {}
    for row, target, group in zip(
        scores, batch["target"].tolist(), batch["group"].tolist(), strict=True
    ):
        nats -= row[target] - math.log(sum(math.exp(score) for score in row))
        right = row.index(max(row)) == target
        correct += right
        by_group.setdefault(group, []).append(right)
    assert float(loss) == pytest.approx(nats, rel=1e-5)
    assert sample_size == 3 and int(log["correct"]) == correct
    values = reduced([log])
    assert values["loss"] == pytest.approx(nats / 3 / math.log(2), abs=1e-4)
    assert values["accuracy"] == pytest.approx(100 * correct / 3, abs=0.01)
    for group, right in by_group.items():
        expected = 100 * sum(right) / len(right)
        assert values[f"accuracy_length_{group + 1}"] == pytest.approx(expected, abs=0.01)


def test_accuracy_is_over_the_examples_of_all_workers():
    """Logs are summed over workers, as in fairseq."""
    model, criterion = build_classifier(), build(disagreement="output")
    criterion.eval()
    parts = [toy_batch(seed=6, lengths=n) for n in ((5, 3), (4, 6, 2, 7, 3, 3))]
    logs = [criterion(model, part)[2] for part in parts]
    assert logs[0].keys() == logs[1].keys()  # also if a worker has no example of a group
    summed = {key: sum(log[key] for log in logs) for key in logs[0]}
    assert criterion.logging_outputs_can_be_summed() is True
    assert reduced([summed]) == pytest.approx(reduced(logs), abs=1e-9)
    rights = [
        model(**part["net_input"])[0].argmax(-1).eq(part["target"]).tolist() for part in parts
    ]
    expected = 100 * sum(map(sum, rights)) / 4
    assert reduced(logs)["accuracy"] == pytest.approx(expected, abs=0.01)


def test_validation_batches_are_weighted_by_their_number_of_examples():
    """In group length_1, 1 of 1 correct in the first batch and 0 of 3 in the second give 25 %."""
    logs = [
        {"loss": 2.0, "sample_size": 4, "correct": 4, "correct/length_1": 1, "total/length_1": 1},
        {"loss": 2.0, "sample_size": 8, "correct": 2, "correct/length_1": 0, "total/length_1": 3},
    ]
    with metrics.aggregate(new_root=True) as in_turn:
        for log in logs:
            SentenceClassificationWithDiversity.reduce_metrics([log])
    shown = in_turn.get_smoothed_values()
    assert shown == reduced(logs)
    assert (shown["accuracy"], shown["accuracy_length_1"]) == (50, 25)


def test_accuracy_by_group_is_logged_in_validation_only():
    model, criterion = build_classifier(), build()
    assert not any("length" in key for key in criterion(model, BATCHES[0])[2])
    criterion.eval()
    assert sum("length" in key for key in criterion(model, BATCHES[0])[2]) == 6
    plain = build(groups=())
    plain.eval()
    assert not any("/" in key for key in plain(model, BATCHES[0])[2])


def test_a_term_is_logged_and_added_with_its_weight():
    model = build_classifier()
    token_loss = build()(model, BATCHES[0])[0]
    loss, sample_size, log = build(disagreement="output", disagreement_weight=0.5)(
        model, BATCHES[0]
    )
    term = reduced([log])["disagreement_output"]
    assert -1 <= term < 0
    expected = float(token_loss) - 0.5 * term * sample_size
    assert float(loss) == pytest.approx(expected, abs=1e-5)
    assert float(log["loss"]) == pytest.approx(float(token_loss))


def test_reduce_false_gives_the_loss_of_each_example():
    model, criterion = build_classifier(), build()
    each, total = (criterion(model, BATCHES[1], reduce=r)[0] for r in (False, True))
    assert each.shape == (3,)
    torch.testing.assert_close(each.sum(), total)
    log = criterion(model, BATCHES[1], reduce=False)[2]
    assert reduced([log])["loss"] == pytest.approx(float(total) / 3 / math.log(2), abs=1e-4)


def test_another_task_is_refused():
    with pytest.raises(ValueError, match="needs --task sentence_classification"):
        SentenceClassificationWithDiversity.build_criterion(
            CRITERION_DATACLASS_REGISTRY[NAME](), translation_task()
        )
