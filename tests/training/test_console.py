"""The terminal shows a summary and the progress of a training; the log file has all lines."""

import logging
import logging.config

import torch

from diverse_mha.recipes.recipe import read_recipe
from diverse_mha.training.console import logging_config

#: Log lines, and what the terminal shows: the line itself (True), nothing (None) or other text.
LINES = {
    "num. shared model params: 1,000 (num. trained: 1,000)": "training: demo, method=hsic, data x, "
    "1,000 parameters",
    "task: ExactTranslationTask": None,
    "[de] dictionary: 7952 types": None,
    "x/bin train de-en 29000 examples": None,
    "to train: 30 updates, 0.1 epochs of 251 updates": True,
    "epoch 001:     10 / 251 loss=13.5": True,
    "Loaded checkpoint run/checkpoint_last.pt (epoch 1 @ 30 updates)": True,
    "Saved checkpoint run/checkpoint_best.pt (epoch 1 @ 30 updates, score 11.3)": True,
}


def test_the_terminal_omits_details_that_the_log_file_has(tmp_path, capsys):
    root = logging.getLogger()
    before = root.handlers[:], root.level
    words = ["method=hsic", "task.data=x", f"checkpoint.save_dir={tmp_path}"]
    try:
        logging.config.dictConfig(logging_config(read_recipe("demo", words)))
        for line in (torch.nn.Linear(1, 1), *LINES):
            logging.info(line)
        logging.warning("task: is wrong")
    finally:
        root.handlers, root.level = before
    *shown, last = capsys.readouterr().out.splitlines()
    kept = {line: kept for line, kept in LINES.items() if kept}
    assert shown == [line if kept is True else kept for line, kept in kept.items()]
    assert last == "task: is wrong"
    written = (tmp_path / "train.log").read_text()
    assert "Linear(" in written and "task: ExactTranslationTask" in written
    assert "num. shared model params" in written
