"""A training writes ``status.json`` at its start, with every checkpoint and at its end."""

import json
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from diverse_mha.common.errors import UserError
from diverse_mha.common.status import Status, read_status
from diverse_mha.fairseq_fixes import guards, install, status  # noqa: F401
from tests.fairseq_fixes.training import training


@pytest.fixture
def run(tmp_path):
    """A stand-in for a run's trainer, and its epoch iterator after 2 epochs."""
    _, trainer = training(tmp_path)
    trainer.cfg.optimization.stop_time_hours = 0
    epochs = trainer.get_train_iterator()
    epochs.epoch = 2
    return trainer, epochs


def test_a_start_and_a_checkpoint_are_recorded(run, tmp_path):
    trainer, epochs = run
    config = trainer.cfg.checkpoint
    trainer.cfg.optimization.max_update = 9
    trainer.get_num_updates.return_value = 4
    checkpoint_utils.load_checkpoint(config, trainer)
    assert read_status(tmp_path) == Status(4, 2)
    trainer.should_save_checkpoint_on_current_rank = False
    trainer.always_call_state_dict_during_save_checkpoint = False
    trainer.data_parallel_rank = 1
    trainer.get_num_updates.return_value = 6
    checkpoint_utils.save_checkpoint(config, trainer, epochs, 1.5)
    assert read_status(tmp_path) == Status(6, 2, best=1.5)
    content = {"updates": 6, "epochs": 2, "finished": False, "diverged": False, "best": 1.5}
    assert json.loads((tmp_path / "status.json").read_text()) == content
    trainer.get_num_updates.return_value = 9
    checkpoint_utils.load_checkpoint(config, trainer)
    assert read_status(tmp_path).finished, "a resumed run with all updates is finished"


@pytest.mark.parametrize(
    ("stopped", "updates", "hours", "max_epoch", "finished"),
    [
        (False, 4, 0, 3, False),  # an epoch before the last
        (False, 4, 0, 2, True),  # the last epoch
        (False, 4, 0, 0, False),
        (True, 9, 0, 0, True),  # --max-update
        (True, 9, 2, 0, True),
        (True, 4, 2, 0, False),  # --stop-time-hours
        (True, 4, 4, 0, True),  # --patience
    ],
)
def test_the_end_is_recorded(run, tmp_path, stopped, updates, hours, max_epoch, finished):
    trainer, epochs = run
    wanted = trainer.cfg.optimization
    wanted.max_update, wanted.stop_time_hours, wanted.max_epoch = 9, hours, max_epoch
    trainer.get_num_updates.return_value = updates
    trainer.cumulative_training_time.return_value = 3 * 3600
    result = status.train_and_record(
        lambda *_: ([1.0], stopped), trainer.cfg, trainer, None, epochs
    )
    assert result == ([1.0], stopped)
    written = read_status(tmp_path)
    assert (written.updates, written.finished, written.diverged) == (updates, finished, False)


def test_the_smallest_learning_rate_ends_a_training(run, tmp_path):
    trainer, epochs = run
    trainer.cfg.optimization.stop_min_lr = 0.1
    trainer.lr_step_update.side_effect = [0.2, 0.1]
    status.record(trainer, epochs)
    for finished in (False, True):
        Trainer.lr_step(trainer, 2)
        assert read_status(tmp_path) == Status(0, 2, finished)


def test_divergence_is_recorded(run, tmp_path):
    trainer, epochs = run
    status.record(trainer, epochs)
    trainer.get_num_updates.return_value = 5
    status.record_divergence(trainer)
    assert read_status(tmp_path) == Status(5, 2, diverged=True)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("gradients are Nan/Inf", "; lower .* longer, or give --clip-norm$"),
        ("Minimum loss scale reached (0.1). Try", " in float16, at the smallest .*with --bf16$"),
        ("AMP: Minimum loss scale reached (0.1). Try", " in float16, at the smallest .*--bf16$"),
    ],
)
def test_divergence_in_every_precision_is_recorded_and_reported(run, tmp_path, message, line):
    trainer, _ = run
    trainer.get_num_updates.return_value = 5
    with pytest.raises(UserError, match=f"^update 6: the gradients are NaN or infinite.*{line}"):
        guards.report_divergence(mock.Mock(side_effect=FloatingPointError(message)), trainer)
    assert read_status(tmp_path) == Status(5, None, diverged=True)
    other = mock.Mock(side_effect=FloatingPointError("gradients are inconsistent"))
    with pytest.raises(FloatingPointError, match="inconsistent"):
        guards.report_divergence(other, trainer)


def test_only_the_first_process_of_a_run_with_checkpoints_writes_a_status(run, tmp_path):
    trainer, epochs = run
    trainer.is_data_parallel_master = False
    status.record(trainer, epochs)
    trainer.is_data_parallel_master, trainer.cfg.checkpoint.no_save = True, True
    status.record(trainer, epochs)
    assert list(tmp_path.iterdir()) == []


def test_fairseqs_train_function_is_patched_once(monkeypatch):
    module = SimpleNamespace(train=lambda *_: ([], False), validate_and_save=None)
    monkeypatch.setitem(sys.modules, "fairseq_cli.train", module)
    status.record_ends()
    once = module.train
    status.record_ends()
    assert module.train is once
