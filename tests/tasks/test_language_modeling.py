"""fairseq-eval-lm refuses blocks that are longer than the model reads."""

from types import SimpleNamespace

import numpy as np
import pytest
from fairseq.tasks import TASK_REGISTRY

import diverse_mha

diverse_mha.register()


@pytest.mark.parametrize("name", ["language_modeling", "exact_language_modeling"])
@pytest.mark.parametrize(
    "length, window, sizes, refused",
    [
        (1024, 0, [117], True),  # fairseq's default block length; the model reads 16 tokens
        (1016, 8, [1016, 3], True),  # fairseq has subtracted the context window of 8
        (1024, 0, [5, 16], False),  # single sentences
        (16, 0, [16, 7], False),
        (8, 8, [8, 8], False),
        (16, 0, [16, 20], False),  # a long sentence only gets a warning
    ],
)
def test_blocks_longer_than_the_model_are_refused(name, length, window, sizes, refused):
    task = SimpleNamespace(
        args=SimpleNamespace(tokens_per_sample=length),
        source_dictionary=SimpleNamespace(pad=lambda: 1),
        get_batch_iterator=lambda **given: SimpleNamespace(next_epoch_itr=lambda shuffle: given),
    )
    dataset = SimpleNamespace(sizes=np.array(sizes))

    def score():
        load = TASK_REGISTRY[name].eval_lm_dataloader
        return load(task, dataset=dataset, max_positions=16, context_window=window)

    if not refused:
        assert score()["max_positions"] == 16
        return
    message = "--tokens-per-sample 1024: the model reads 16, .*; give --tokens-per-sample 16"
    with pytest.raises(ValueError, match=message):
        score()
