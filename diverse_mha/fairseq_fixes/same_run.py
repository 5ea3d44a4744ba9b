"""Guard: a run resumes from an existing checkpoint, and with the options that it began with.

fairseq-fixed 0.12.3.1 trains from scratch if the checkpoint to start from is missing, and resumes
silently with changed options. ``resuming`` calls these checks while it loads a checkpoint.
"""

import logging
import os
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fairseq.file_io import PathManager

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.files import folder_error
from diverse_mha.common.options import ANYWHERE, same_value
from diverse_mha.fairseq_fixes.checkpoint_options import FILES
from diverse_mha.fairseq_fixes.dictionaries import Read

logger = logging.getLogger(__name__)

#: Default of ``--restore-file``, the only name that fairseq looks up in the save folder.
LAST = "checkpoint_last.pt"
#: The only option whose checkpoint may lack parts of the model.
FINETUNE = "finetune_from_model"


def check_start(
    save_dir: str,
    restore_file: str,
    finetune_from_model: str | None,
    continue_once: str | None,
    *,
    suffix: str = "",
) -> tuple[str | None, str]:
    """Raise an error if the checkpoint to start from is missing.

    fairseq loads the first of these that is given or exists: ``--restore-file``, the run's last
    checkpoint, ``--continue-once``, ``--finetune-from-model``. ``suffix`` precedes ``.pt`` in the
    file names of a sharded model.

    Returns:
        The option that names the checkpoint to load, and the checkpoint's path. If the run's last
        checkpoint is loaded, or no checkpoint, the result is None and the last checkpoint's path.
    """
    exists, last = PathManager.exists, os.path.join(save_dir, _part(LAST, suffix))
    if restore_file != LAST:
        option, given = "restore_file", restore_file
    elif exists(last):
        return None, last
    elif continue_once is not None:
        option, given = "continue_once", continue_once
    elif finetune_from_model is not None:
        option, given = FINETUNE, finetune_from_model
    else:
        return None, last
    path = _part(given, suffix) if option == "restore_file" else given
    if not exists(path):
        cure = "check the name, or leave it out"
        if exists(os.path.join(save_dir, path)):
            cure = f"give {os.path.join(save_dir, given)}"
        raise UserError(Option(option, path), f": no such checkpoint; {cure}")
    if os.path.isdir(path):  # fairseq would train from scratch
        raise folder_error(path, option)
    return option, path


def _part(name: str, suffix: str) -> str:
    return name.replace(".pt", f"{suffix}.pt")


#: Option that defines a run -> fairseq's options with which a user confirms a change. The options
#: of methods and architecture define a run, too.
DEFINE_A_RUN = {
    ("common", "seed"): (),
    ("task", "data"): ("reset_dataloader",),
    ("task", "source_lang"): ("reset_dataloader",),
    ("task", "target_lang"): ("reset_dataloader",),
    ("criterion", "_name"): ("reset_optimizer",),
    ("optimizer", "_name"): ("reset_optimizer",),
    ("optimization", "lr"): ("reset_lr_scheduler", "reset_optimizer"),
}
#: Parts of the names of model options that do not belong to the architecture.
_NOT_ARCHITECTURE = ("dropout", "layerdrop", "checkpoint_activations", "offload", "min_params")
#: Groups whose options are compared.
_COMPARED = (
    "model task criterion optimization lr_scheduler optimizer common dataset checkpoint ema"
).split()
#: Copies of options of the group ``optimization``.
_COPIES = (("optimizer", "lr"), ("lr_scheduler", "lr"), ("lr_scheduler", "max_update"))


class Change(NamedTuple):
    """An option that has changed since the run began."""

    group: str
    name: str
    before: Any
    now: Any

    def __str__(self):
        return f"{self.name} {_text(self.before)}, now {_text(self.now)}"


def changes(saved: Mapping, now: Mapping) -> Iterator[Change]:
    """Yield the changed options; options missing on one side are skipped."""
    for group in _COMPARED:
        before, after = (_options(options.get(group)) for options in (saved, now))
        for name, value in before.items():
            # A model's name, such as transformer_disagree_small, is only a preset of options.
            counts = name not in ANYWHERE if name != "_name" else group not in ("model", "task")
            counts = counts and (group, name) not in _COPIES
            # Loading has removed them (check_options); the weights replace what they named.
            counts = counts and name not in FILES.get(group, ())
            if counts and name in after and not _same(group, name, value, after[name]):
                yield Change(group, name, value, after[name])


def check_same_run(
    path: str,
    saved: Mapping | None,
    now: Mapping,
    method_options: Mapping[str, Collection[str]],
    fits: bool = True,
) -> list[Change]:
    """Raise an error if a run is resumed with another method, seed, architecture or corpus.

    Criterion, optimiser and learning rate must not change either, unless an option confirms the
    change (``DEFINE_A_RUN``). A term that the run was trained with must be registered.

    Args:
        path: the last checkpoint in the folder.
        saved: options in the checkpoint; None if the checkpoint has no groups of options.
        now: options of the training.
        method_options: group -> options of methods. No reset option confirms a change of these
            options. Without options of methods, nothing is compared.
        fits: True if the checkpoint could be loaded into the model.

    Returns:
        The permitted changes.
    """
    if not saved or not any(method_options.values()):
        return []
    changed = sorted(changes(saved, now), key=lambda change: not _of_method(change, method_options))
    for change in changed:
        if _refused(change, now, method_options):
            name = change.group if change.name == "_name" else change.name
            cure = Option("restore_file", os.path.join(os.path.dirname(path), LAST))
            if change.name == "_name" and change[:2] in DEFINE_A_RUN:
                cure = Option(DEFINE_A_RUN[change[:2]][0], True)
            before = change.before
            if isinstance(before, Sequence) and not isinstance(before, str):
                before = [*before]  # also OmegaConf's lists
            trained = "without" if before is None else "with"
            new = ["to continue that run with the new value, add ", cure]
            start = ["to start there from these weights, ", Option("finetune_from_model", path)]
            raise UserError(
                f"{path}: trained {trained} ", Option(name, before),
                f", which is now {_text(change.now)}; give another ", Option("save_dir"), ", or, ",
                *(new if fits else start),
            )  # fmt: skip
    before, after = saved.get("criterion") or {}, now["criterion"]
    if method_options.get("criterion") and before.get("_name") == after.get("_name"):
        for name, value in before.items():
            off = value in (None, False, "") or same_value(value, 0)
            if name not in after and not off:
                raise UserError(
                    f"{path}: trained with ", Option(name, value),
                    ", which is no longer registered; give the ", Option("user_dir"),
                    " of that training",
                )  # fmt: skip
    return changed


def compare_runs(
    trainer, option: str | None, path: str, read: Read | None, fits: bool = True
) -> list[Change]:
    """Return the changed options of a resumed run; raise an error if they are not permitted.

    ``option`` and ``path`` are the result of :func:`check_start`. ``read`` is the checkpoint that
    this process has read, or None.
    """
    if read is None:
        return []
    if option is None:
        own = {
            "criterion": getattr(trainer.get_criterion(), "method_options", ()),
            "model": getattr(trainer.get_model(), "method_options", ()),
        }
        return check_same_run(path, read.cfg, trainer.cfg, own, fits)
    folders = os.path.dirname(path), trainer.cfg.checkpoint.save_dir
    if os.path.realpath(folders[0]) != os.path.realpath(folders[1]):
        return []
    return list(changes(read.cfg or {}, trainer.cfg))


def check_pruned_heads(path: str, saved: Mapping | None, now: Mapping) -> None:
    """Raise an error if a checkpoint could not be loaded because other heads are pruned."""
    before, after = (
        _options((options or {}).get("model")).get("pruned_heads") for options in (saved, now)
    )
    if before != after:
        given = Option("pruned_heads", before or None)
        cure = "give " if before else "leave out "
        raise UserError(f"{path}: has other pruned heads than the model; {cure}", given)


def say_changes(path: str, changed: Collection[Change]) -> None:
    """Log changed options in one line."""
    if changed:
        text = "%s: resumed with changed options: %s"
        logger.warning(text, path, "; ".join(map(str, changed)))


def _of_method(change: Change, method_options: Mapping[str, Collection[str]]) -> bool:
    return change.name in method_options.get(change.group, ()) or change[:2] == ("common", "seed")


def _refused(change: Change, now: Mapping, method_options: Mapping[str, Collection[str]]) -> bool:
    group, name = change[:2]
    if _of_method(change, method_options):
        return True
    if group == "model":
        return not any(word in name for word in _NOT_ARCHITECTURE)
    if name == "data" and not all(map(os.path.exists, str(change.before).split(os.pathsep))):
        return False  # the corpus was moved, which is permitted
    given = now.get("checkpoint") or {}
    confirmed = any(given.get(reset) for reset in DEFINE_A_RUN.get((group, name), ()))
    return (group, name) in DEFINE_A_RUN and not confirmed


def _options(group: Any) -> Mapping:
    """Return a group's options. From a model's Namespace, return only options of the model."""
    if isinstance(group, Namespace):
        parts = ("encoder_", "decoder_", "share_", "dropout", "activation_", "attention_")
        return {name: value for name, value in vars(group).items() if name.startswith(parts)}
    return group or {}


def _same(group: str, name: str, before: Any, now: Any) -> bool:
    if group == "task" and None in (before, now):
        return True  # None: fairseq infers the languages from the data
    if (group, name) == ("optimizer", "_name") and {before, now} == {"adam", "fused_adam"}:
        return True  # same formula and state
    if name == "data":
        folders = [str(value).split(os.pathsep) for value in (before, now)]
        return list(map(os.path.realpath, folders[0])) == list(map(os.path.realpath, folders[1]))
    return same_value(_text(before), _text(now))


def _text(value: Any) -> str:
    return str(value).strip("[]()")
