"""The terminal shows a summary and the progress of a training; the log file has all lines."""

import logging
import logging.config

import pytest
import torch

from diverse_mha.training import train
from diverse_mha.training.terminal import quiet_console

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


@pytest.mark.parametrize("file", [True, False])
def test_the_terminal_omits_details_that_the_log_file_has(file, tmp_path, capsys):
    root = logging.getLogger()
    before = root.handlers[:], root.level
    handlers = {"console": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}}
    if file:
        handlers["file"] = {"class": "logging.FileHandler", "filename": tmp_path / "train.log"}
    words = ["method=hsic", "task.data=x"]
    recipe = {"task": {"_name": "exact_translation", "data": "x"}}
    job = train.Request(words, config=tmp_path / "demo.yaml", recipe=recipe)
    config = {"version": 1, "handlers": handlers, "disable_existing_loggers": False}
    config["root"] = {"level": "INFO", "handlers": list(handlers)}
    try:
        with quiet_console(job, "precision: float32"):
            logging.config.dictConfig(config)
            for line in (torch.nn.Linear(1, 1), *LINES):
                logging.info(line)
            logging.warning("task: is wrong")
    finally:
        root.handlers, root.level = before
    shown = capsys.readouterr().out.splitlines()
    if file:
        kept = {line: kept for line, kept in LINES.items() if kept}
        assert shown[:-1] == ["precision: float32"] + [
            line if kept is True else kept for line, kept in kept.items()
        ]
        written = (tmp_path / "train.log").read_text()
        assert written.startswith("precision: float32\n")
        assert "Linear(" in written and "task: ExactTranslationTask" in written
        assert "num. shared model params" in written
    else:
        assert len(shown) == len(LINES) + 2
    assert shown[-1] == "task: is wrong"
