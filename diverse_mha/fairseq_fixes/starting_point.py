"""Looks for the checkpoint that a training starts from.

fairseq-fixed 0.12.3.1 trains from scratch if it is missing. Names are paths, not relative to
``--save-dir``.
"""

import os
from typing import Any

from fairseq.file_io import PathManager

from diverse_mha.common.errors import OptionError

#: Default of ``--restore-file``, the one name that fairseq looks up in the save folder.
LAST = "checkpoint_last.pt"
#: The one option whose checkpoint may lack parts of the model.
FINETUNE = "--finetune-from-model"


def check_start(
    save_dir: str,
    restore_file: str,
    finetune_from_model: str | None,
    continue_once: str | None,
    *,
    suffix: str = "",
) -> tuple[str | None, str]:
    """Refuse a missing checkpoint to start from.

    fairseq opens ``--restore-file`` if given, else the run's last checkpoint, else that of
    ``--continue-once``, else that of ``--finetune-from-model``. ``suffix`` stands before ``.pt``
    in the names of a model's parts.

    Returns:
        The option that names the checkpoint and its value; None and the run's last checkpoint if
        that, or nothing, is loaded.
    """
    exists, last = PathManager.exists, os.path.join(save_dir, _part(LAST, suffix))
    if restore_file != LAST:
        option, given = "--restore-file", restore_file
    elif exists(last):
        return None, last
    elif continue_once is not None:
        option, given = "--continue-once", continue_once
    elif finetune_from_model is not None:
        option, given = FINETUNE, finetune_from_model
    else:
        return None, last
    path = _part(given, suffix) if option == "--restore-file" else given
    if not exists(path):
        cure = "check the name, or leave it out"
        if exists(os.path.join(save_dir, path)):
            cure = f"give {os.path.join(save_dir, given)}"
        raise OptionError(f"{option} {path}: no such checkpoint; {cure}")
    return option, path


def check_metric(options: Any, metric: str) -> None:
    """Refuse a metric that is not measured, which ends a training after its first epoch."""
    if metric == "bleu" and getattr(options.task, "eval_bleu", None) is False:
        raise OptionError("--best-checkpoint-metric bleu: is measured with --eval-bleu; add it")


def _part(name: str, suffix: str) -> str:
    return name.replace(".pt", f"{suffix}.pt")
