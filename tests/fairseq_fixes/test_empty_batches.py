"""Empty batches, which pad a process's share. Trainings: tests/integration/test_epoch_ends.py."""

import argparse
from unittest import mock

import pytest
from fairseq.tasks import TASK_REGISTRY

from diverse_mha import tasks  # noqa: F401 (registers)
from tests.reliability import distributed


@pytest.mark.parametrize("empty", [None, {}, []], ids=str)
def test_empty_batches_count_nothing_wherever_they_stand(empty, miniatures):
    training = distributed.Training("transformer_disagree", "output", miniatures, 0, 1)
    first, second = training.samples([[(5, 4), (3, 6)], [(2, 8)]])
    gradients, log = training.step([first, second])
    for samples in ([empty, first, second], [first, empty, second], [first, second, empty]):
        result = training.step(samples)
        assert distributed.deviation(result[0], gradients) < 1e-12
        assert distributed.log_deviation(result[1], log) < 1e-6
    assert training.step([empty])[1]["sample_size"] == 0


TASKS = "translation exact_translation exact_language_modeling sentence_classification".split()


@pytest.mark.parametrize("name", TASKS)
def test_fairseq_validate_skips_an_empty_batch(name):
    """fairseq-validate hands empty batches to the task; a training's validation does not."""
    task = TASK_REGISTRY[name].__new__(TASK_REGISTRY[name])
    task.cfg = argparse.Namespace(eval_bleu=True)
    criterion = mock.Mock(side_effect=lambda model, sample: sample["net_input"])
    assert task.valid_step({}, mock.Mock(), criterion) == (0, 0, {})
    with pytest.raises(KeyError, match="net_input"):
        task.valid_step({"id": 1}, mock.Mock(), criterion)
