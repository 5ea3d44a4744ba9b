"""Console output of a training with a recipe: a filter and a formatter of fairseq's log."""

import logging
import logging.config
import re
from collections.abc import Iterator
from contextlib import contextmanager

from diverse_mha.fairseq_fixes.patch import patched
from diverse_mha.training.request import Request

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


def is_shown(record: logging.LogRecord) -> bool:
    """Return True for records that users need: the run, its progress and its checkpoints."""
    if record.levelno > logging.INFO:
        return True
    if not isinstance(record.msg, str):  # the configuration or the model, logged as an object
        return False
    text = record.getMessage()
    return not (text.startswith(_INNER) or _EXAMPLES.fullmatch(text) or _DICTIONARY.match(text))


class RunSummaryFormatter(logging.Formatter):
    """Log formatter: fairseq's line on the number of parameters becomes a summary of the run."""

    def __init__(self, job: Request) -> None:
        super().__init__()
        method = [word for word in job.arguments if word.startswith("method=")]
        data = str(job.setting("task", "data")).replace("${hydra:runtime.cwd}/", "")
        self.training = ", ".join([job.config.stem, *(method or ["no method"]), f"data {data}"])

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for the terminal."""
        text = super().format(record)
        match = _PARAMETERS.match(text)
        return f"training: {self.training}, {match[1]} parameters" if match else text


@contextmanager
def quiet_console(job: Request, first: str = "") -> Iterator[None]:
    """Context manager: filter the console's log if a log file gets all records.

    ``first`` is logged before anything else. The filter is set in ``dictConfig``, because Hydra
    configures logging, and fairseq does so again in every process.
    """
    set_up, notes = logging.config.dictConfig, [first] if first else []

    def with_filter(config) -> None:
        set_up(config)
        handlers = logging.getLogger().handlers
        if any(isinstance(handler, logging.FileHandler) for handler in handlers):
            for handler in handlers:
                if type(handler) is logging.StreamHandler:
                    handler.addFilter(is_shown)
                    handler.setFormatter(RunSummaryFormatter(job))
            while notes:
                logging.info("%s", notes.pop())

    with patched(logging.config, "dictConfig", with_filter):
        yield
