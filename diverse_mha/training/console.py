"""Logging of a training with a recipe: train.log gets all lines, the terminal those for users.

``training/worker.py`` gives :func:`logging_config` to fairseq, for the first process.
"""

import logging
import re
from pathlib import Path

from diverse_mha.recipes.recipe import Recipe
from diverse_mha.training.read_log import TRAIN_LOG

#: Prefixes of fairseq's log lines that users do not need.
_INNER = (
    "--user-dir=", "task: ", "model: ", "criterion: ", "num. expert model params", "loaded ",
    "detected shared parameter", "training on 1 devices", "max tokens per device",
    "Preparing to ", "No existing checkpoint", "loading train data", "can_reuse_epoch_itr",
    "reuse_dataloader", "rebuild_batches", "batches will be rebuilt",
    "creating new batches", "begin dry-run", "begin validation",
    "grouped total_num_itrs", "Start iterating", "State of ", "Saving checkpoint",
    "Finished saving", "end of epoch", "begin training epoch",
)  # fmt: skip
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_EXAMPLES = re.compile(r".* \S+ examples$")
_DICTIONARY = re.compile(r"(\[\S+\] )?dictionary: ")


class ForUsers(logging.Filter):
    """Log filter: keeps records that users need, on the run, its progress and its checkpoints."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a record to show."""
        if record.levelno > logging.INFO:
            return True
        if not isinstance(record.msg, str):  # the configuration or the model, logged as an object
            return False
        text = record.getMessage()
        return not (text.startswith(_INNER) or _EXAMPLES.fullmatch(text) or _DICTIONARY.match(text))


class RunSummaryFormatter(logging.Formatter):
    """Log formatter: fairseq's line on the number of parameters becomes a summary of the run."""

    def __init__(self, training: str) -> None:
        super().__init__()
        self.training = training

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for the terminal."""
        text = super().format(record)
        match = _PARAMETERS.match(text)
        return f"training: {self.training}, {match[1]} parameters" if match else text


def logging_config(recipe: Recipe) -> dict:
    """Return the configuration of Python's logging for a training's first process."""
    method = recipe.choices.get("method")
    parts = [
        recipe.name,
        *([f"method={method}"] if method else []),
        f"data {recipe.get('task.data')}",
    ]
    here = __name__
    # A training that saves nothing makes no folder for a log.
    handlers = ["console"] if recipe.get("checkpoint.no_save") else ["console", "file"]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"for_users": {"()": f"{here}.ForUsers"}},
        "formatters": {
            "summary": {"()": f"{here}.RunSummaryFormatter", "training": ", ".join(parts)},
            "plain": {"format": "%(message)s"},
        },
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stdout",
                "filters": ["for_users"],
                "formatter": "summary",
            },
            "file": {
                "class": "logging.FileHandler",
                "filename": str(Path(str(recipe.get("checkpoint.save_dir"))) / TRAIN_LOG),
                "formatter": "plain",
                "delay": True,  # the file is opened at the first line
            },
        },
        "root": {"level": "INFO", "handlers": handlers},
    }
