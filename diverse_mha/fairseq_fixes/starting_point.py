"""The checkpoint that a training starts from: what fairseq would open, looked for beforehand.

fairseq-fixed 0.12.3.1 takes the names as they stand, not below ``--save-dir``, and where there is
no such file it trains from scratch and says so in one line among many. ``launch.py`` asks here
before fairseq is imported, ``start_of_training.py`` for every other way of training.
"""

import os
from collections.abc import Callable
from typing import Any

from diverse_mha.common.errors import OptionError

#: What ``--restore-file`` is by default, and the one name that fairseq looks up in the save folder.
LAST = "checkpoint_last.pt"
#: The one option from which a model may start that has parts the checkpoint lacks.
FINETUNE = "--finetune-from-model"


def check_start(
    save_dir: str,
    restore_file: str,
    finetune_from_model: str | None,
    continue_once: str | None,
    *,
    suffix: str = "",
    exists: Callable[[str], bool] = os.path.exists,
) -> tuple[str | None, str]:
    """Refuse a checkpoint to start from that is not there.

    Looked for is the one that ``fairseq.checkpoint_utils.load_checkpoint`` would open:
    ``--restore-file`` if it is given; else the last one of the run; where there is none yet,
    that of ``--continue-once``, then that of ``--finetune-from-model``. The suffix is what fairseq
    puts before ``.pt`` in the names of the parts of a model.

    Returns:
        The option that names the checkpoint to start from, and its value; None and the last one
        of the run where that, or nothing, is loaded.
    """
    last = os.path.join(save_dir, _part(LAST, suffix))
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


def check_settings(options: Any, metric: str, ours: bool) -> None:
    """Refuse options that would do nothing, or end a training with its first epoch."""
    if metric == "bleu" and getattr(options.task, "eval_bleu", None) is False:
        raise OptionError("--best-checkpoint-metric bleu: is measured with --eval-bleu; add it")
    if ours and getattr(options.task, "load_alignments", None) is True:
        raise OptionError(
            "--load-alignments: has no effect with a criterion of this package; leave it out"
        )


def _part(name: str, suffix: str) -> str:
    return name.replace(".pt", f"{suffix}.pt")
