"""The checkpoint that a training starts from: what fairseq would open, looked for beforehand.

fairseq takes the names as they stand, not below ``--save-dir``, and where there is no such file
it trains from scratch and says so in one line among many. ``launch.py`` asks here before fairseq
is imported, ``compat.py`` for every other way of training.
"""

import os
from collections.abc import Callable, Collection, Mapping

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import flag

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
) -> tuple[str, str] | None:
    """Refuse a checkpoint to start from that is not there.

    Looked for is the one that ``fairseq.checkpoint_utils.load_checkpoint`` would open:
    ``--restore-file`` if it is given; else the last one of the run; where there is none yet,
    that of ``--continue-once``, then that of ``--finetune-from-model``.

    Args:
        save_dir: the folder of the run.
        restore_file: value of ``--restore-file``.
        finetune_from_model: value of ``--finetune-from-model``, or None.
        continue_once: value of ``--continue-once``, or None.
        suffix: what fairseq puts before ``.pt`` in the names of the parts of a model.
        exists: whether a file is there.

    Returns:
        The option that names the checkpoint to start from, and its value; None where the last
        one of the run, or nothing, is loaded.

    Raises:
        OptionError: naming the option and the file, and where it lies if that is the save folder.
    """
    if restore_file != LAST:
        option, path = "--restore-file", _part(restore_file, suffix)
    elif exists(os.path.join(save_dir, _part(LAST, suffix))):
        return None
    elif continue_once is not None:
        option, path = "--continue-once", continue_once
    elif finetune_from_model is not None:
        option, path = FINETUNE, finetune_from_model
    else:
        return None
    if not exists(path):
        inside = os.path.join(save_dir, path)
        cure = f"give {inside}" if exists(inside) else "check the name, or leave it out"
        raise OptionError(f"{option} {path}: no such checkpoint; {cure}")
    return option, path


def check_method(
    path: str, saved: Mapping | None, now: Mapping, own: Mapping[str, Collection[str]]
) -> None:
    """Refuse to go on with another method, or seed, than the run in the folder was begun with.

    fairseq would, and the model would be of both; most often it was the folder that was forgotten.

    Args:
        path: the last checkpoint of the folder.
        saved: the options in it; None where it has none by groups.
        now: those of the training.
        own: by group, the options that make a method; where there are none, nothing is compared.

    Raises:
        OptionError: naming the first option that differs, with both values.
    """
    if not saved or not any(own.values()):
        return
    for group, names in {"common": ("seed",), **own}.items():
        before, after = saved.get(group) or {}, now[group]
        for name in names:
            if name in before and before[name] != after[name]:
                raise OptionError(
                    f"{path}: trained with {flag(name)} {before[name]}, which is now "
                    f"{after[name]}; give another --save-dir, or, if that run is to go on so, "
                    f"--restore-file {path}"
                )


def _part(name: str, suffix: str) -> str:
    return name.replace(".pt", f"{suffix}.pt")
