"""The metric that decides on the best checkpoint."""

import sys
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq_cli import train

from diverse_mha.common.errors import UserError
from tests.fairseq_fixes.training import training


def test_a_metric_that_is_not_logged_is_answered_with_those_that_are(tmp_path, monkeypatch):
    # Another test may have patched it.
    original = getattr(train.get_valid_stats, "__wrapped__", train.get_valid_stats)
    functions = {"train": train.train, "validate_and_save": train.validate_and_save}
    module = SimpleNamespace(get_valid_stats=original, **functions)
    monkeypatch.setitem(sys.modules, "fairseq_cli.train", module)
    cfg, trainer = training(tmp_path)
    trainer.cfg.checkpoint, trainer.task = cfg, SimpleNamespace()
    for _ in range(2):
        checkpoint_utils.load_checkpoint(cfg, trainer)
        assert module.get_valid_stats.__wrapped__ is original, "patched once"
    stats = {"ppl": 8.0, "loss": 3.0}
    assert module.get_valid_stats(trainer.cfg, trainer, stats, True)["loss"] == 3.0
    cfg.best_checkpoint_metric = "bleu"
    message = "^--best-checkpoint-metric bleu: the validation does not log it; .* of loss, ppl$"
    with pytest.raises(UserError, match=message):
        module.get_valid_stats(trainer.cfg, trainer, {"ppl": 8.0, "loss": 3.0}, True)
    trainer.task.post_validate = lambda *_: None  # it may add the metric
    module.get_valid_stats(trainer.cfg, trainer, {"ppl": 8.0, "loss": 3.0}, True)
