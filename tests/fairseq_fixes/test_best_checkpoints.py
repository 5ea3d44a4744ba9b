"""fairseq's own saving, with scores below zero, and with what is no number."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig

from diverse_mha.fairseq_fixes import install  # noqa: F401  what is tested


class Trainer:
    """What fairseq asks of a trainer that saves."""

    data_parallel_rank, checkpoint_suffix, task = 0, "", None
    should_save_checkpoint_on_current_rank = True

    def consolidate_optimizer(self):
        pass

    def get_num_updates(self):
        return 10

    def save_checkpoint(self, path, extra_state):
        Path(path).touch()


@pytest.mark.parametrize("maximise, sign", [(False, 1), (True, -1)])
def test_a_score_that_is_no_number_is_the_worst(tmp_path, monkeypatch, maximise, sign):
    monkeypatch.setattr(checkpoint_utils.save_checkpoint, "best", math.inf, raising=False)
    del checkpoint_utils.save_checkpoint.best
    config = CheckpointConfig(save_dir=str(tmp_path), no_epoch_checkpoints=True)
    config.maximize_best_checkpoint_metric = maximise
    written = []
    for epoch, score in enumerate([math.nan, 5.0, 4.0, math.nan, 4.8, 3.5], 1):
        (tmp_path / "checkpoint_best.pt").unlink(missing_ok=True)
        iterator = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: True, state_dict=dict)
        checkpoint_utils.save_checkpoint(config, Trainer(), iterator, sign * score)
        written.append((tmp_path / "checkpoint_best.pt").exists())
    assert written == [True, True, True, False, False, True]


@pytest.mark.parametrize(
    "maximise, scores, kept",
    [
        (False, [-0.5, -0.7, -0.6, -0.9, 0.1], ["-0.7", "-0.9"]),
        (True, [-0.9, -0.7, -0.8, -0.5, 0.1], ["-0.5", "0.1"]),
        (True, [0.1, 0.3, 0.2], ["0.2", "0.3"]),
        (False, [math.nan, 0.3, math.nan, 0.2, 0.4], ["0.2", "0.3"]),
        (True, [math.nan, -0.3, 0.2, math.nan], ["-0.3", "0.2"]),
        (False, [math.inf, 0.3, 0.2, math.inf], ["0.2", "0.3"]),
    ],
)
def test_the_best_are_kept_whatever_their_sign(tmp_path, monkeypatch, maximise, scores, kept):
    monkeypatch.setattr(checkpoint_utils.save_checkpoint, "best", math.inf, raising=False)
    del checkpoint_utils.save_checkpoint.best
    config = CheckpointConfig(
        save_dir=str(tmp_path), keep_best_checkpoints=2, no_epoch_checkpoints=True
    )
    config.best_checkpoint_metric = "output_disagreement"
    config.maximize_best_checkpoint_metric = maximise
    for epoch, score in enumerate(scores, 1):
        iterator = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: True, state_dict=dict)
        checkpoint_utils.save_checkpoint(config, Trainer(), iterator, score)
    found = sorted(path.name for path in tmp_path.glob("checkpoint.best_*"))
    expected = [f"checkpoint.best_output_disagreement_{score}00" for score in kept]
    assert [name[:-4] for name in found] == expected, "the last digit is fairseq's, for ties"
