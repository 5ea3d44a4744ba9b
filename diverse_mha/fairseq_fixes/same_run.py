"""Refuses to resume a run with the options of another one, which fairseq-fixed 0.12.3.1 does."""

import logging
import os
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import flag, same_value
from diverse_mha.fairseq_fixes.starting_point import FINETUNE, LAST

logger = logging.getLogger(__name__)

_LEARNING_RATE = ("reset_lr_scheduler", "reset_optimizer")
#: Groups that define a run, with fairseq's options by which a user confirms a change.
MAKES_A_RUN = {
    "model": (),
    "task": ("reset_dataloader",),
    "criterion": ("reset_optimizer",),
    "optimization": _LEARNING_RATE,  # only its learning rate
    "lr_scheduler": _LEARNING_RATE,
    "optimizer": ("reset_optimizer",),
}
_LOGGED = ("common", "dataset", "checkpoint", "ema")  # groups whose changes are only logged
#: Options of speed, memory, places and logging: changes are ignored.
_ANYWHERE = (
    "log_interval log_format log_file no_progress_bar user_dir aim_repo "
    "tensorboard_logdir wandb_project azureml_logging plasma_path num_workers data_buffer_size "
    "max_tokens_valid batch_size_valid save_dir restore_file finetune_from_model continue_once "
    "reset_dataloader reset_lr_scheduler reset_meters reset_optimizer optimizer_overrides tpu cpu "
    "suppress_crashes"
).split()
#: Options in groups that define a run, whose changes are only logged.
_HARMLESS = (
    "checkpoint_activations offload_activations min_params_to_wrap token_loss "
    "report_accuracy dataset_impl fp16_adam_stats use_old_adam rebuild_batches eval_bleu "
    "eval_bleu_args eval_bleu_detok eval_bleu_detok_args eval_tokenized_bleu eval_bleu_remove_bpe "
    "eval_bleu_print_samples"
).split()


class Change(NamedTuple):
    """An option that has changed since the run began."""

    group: str
    name: str
    before: Any
    now: Any

    def __str__(self):
        return f"{self.name} {_text(self.before)}, now {_text(self.now)}"


def changes(saved: Mapping, now: Mapping) -> Iterator[Change]:
    """Yield the options that differ, leaving out those that one side lacks."""
    for group in (*MAKES_A_RUN, *_LOGGED):
        before, after = (_options(options.get(group)) for options in (saved, now))
        for name, value in before.items():
            # A model's name, such as transformer_disagree_small, only stands for options.
            counts = name not in _ANYWHERE if name != "_name" else group not in ("model", "task")
            counts = counts and (group, name) not in _copied(after)
            if counts and name in after and not _same(group, name, value, after[name]):
                yield Change(group, name, value, after[name])


def check_same_run(
    path: str,
    saved: Mapping | None,
    now: Mapping,
    own: Mapping[str, Collection[str]],
    fits: bool = True,
) -> list[Change]:
    """Refuse to resume with options that make another run, or without a term's plugin.

    Args:
        path: the last checkpoint of the folder.
        saved: its options; None if they are not in groups.
        now: options of the training.
        own: by group, the options of methods, whose change no reset option confirms. Nothing is
            compared without them.
        fits: whether the checkpoint could be loaded.

    Returns:
        The other changes.
    """
    if not saved or not any(own.values()):
        return []
    found = sorted(changes(saved, now), key=lambda change: not _of_method(change, own))
    for change in found:
        if _refused(change, now, own):
            name = change.group if change.name == "_name" else change.name
            cure = f"--restore-file {os.path.join(os.path.dirname(path), LAST)}"
            if change.name == "_name" and MAKES_A_RUN[change.group]:
                cure = flag(MAKES_A_RUN[change.group][0])
            raise OptionError(
                f"{path}: trained with {flag(name)} {_text(change.before)}, which is now "
                f"{_text(change.now)}; give another --save-dir, or, "
                + (f"if that run is to go on so, {cure}" if fits else f"there, {FINETUNE} {path}")
            )
    before, after = saved.get("criterion") or {}, now["criterion"]
    if own.get("criterion") and before.get("_name") == after.get("_name"):
        for name, value in before.items():
            off = value in (None, False, "") or same_value(value, 0)
            if name not in after and not off:
                raise OptionError(
                    f"{path}: trained with {flag(name)} {value}, which nothing registers now; give "
                    "the --user-dir of that training"
                )
    return found


def compare_runs(
    trainer, option: str | None, path: str, read: Mapping, fits: bool = True
) -> list[Change]:
    """Return the changes of a resumed run; refuse another one (see :func:`check_same_run`)."""
    if read.get("path") != path:
        return []
    if option is None:
        own = {
            "criterion": getattr(trainer.get_criterion(), "method_options", ()),
            "model": getattr(trainer.get_model(), "method_options", ()),
        }
        return check_same_run(path, read["cfg"], trainer.cfg, own, fits)
    folders = os.path.dirname(path), trainer.cfg.checkpoint.save_dir
    if os.path.realpath(folders[0]) != os.path.realpath(folders[1]):
        return []
    return list(changes(read["cfg"] or {}, trainer.cfg))


def say_changes(path: str, found: Collection[Change]) -> None:
    """Log changed options in one line."""
    if found:
        text = "%s goes on with other settings than it was trained with: %s"
        logger.warning(text, path, "; ".join(map(str, found)))


def _of_method(change: Change, own: Mapping[str, Collection[str]]) -> bool:
    return change.name in own.get(change.group, ()) or change[:2] == ("common", "seed")


def _refused(change: Change, now: Mapping, own: Mapping[str, Collection[str]]) -> bool:
    if _of_method(change, own):
        return True
    group, name = change[:2]
    if group not in MAKES_A_RUN or name in _HARMLESS or (group == "optimization" and name != "lr"):
        return False
    if name == "data" and not all(map(os.path.exists, str(change.before).split(os.pathsep))):
        return False  # moved
    given = now.get("checkpoint") or {}
    return not any(given.get(reset) for reset in MAKES_A_RUN[group])


def _options(group: Any) -> Mapping:
    """Return a group's options; fairseq's older models hold them among all others."""
    if isinstance(group, Namespace):
        parts = ("encoder_", "decoder_", "share_", "dropout", "activation_", "attention_")
        return {name: value for name, value in vars(group).items() if name.startswith(parts)}
    return group or {}


def _same(group: str, name: str, before: Any, now: Any) -> bool:
    if group == "task" and None in (before, now):
        return True  # languages that fairseq infers
    if (group, name) == ("optimizer", "_name") and {before, now} == {"adam", "fused_adam"}:
        return True  # same formula and state
    if name == "data":
        folders = [str(value).split(os.pathsep) for value in (before, now)]
        return list(map(os.path.realpath, folders[0])) == list(map(os.path.realpath, folders[1]))
    return same_value(_text(before), _text(now))


def _copied(options: Mapping) -> list[tuple[str, str]]:
    """Return options that are only copies of others."""
    copies = [("optimizer", "lr"), ("lr_scheduler", "lr")]
    # A cosine schedule depends on the number of updates unless it has a period.
    if (options.get("lr_period_updates") or 0) > 0:
        copies.append(("lr_scheduler", "max_update"))
    return copies


def _text(value: Any) -> str:
    return str(value).strip("[]()")
