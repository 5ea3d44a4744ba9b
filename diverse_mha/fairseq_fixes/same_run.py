"""Whether a training that goes on is the run that was begun, by its options then and now.

fairseq-fixed 0.12.3.1 goes on with whatever options it is given, without a word.
"""

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
#: What makes a run another one, by group, and fairseq's options that say that a change is meant.
MAKES_A_RUN = {
    "model": (),
    "task": ("reset_dataloader",),
    "criterion": ("reset_optimizer",),
    "optimization": _LEARNING_RATE,  # its learning rate alone
    "lr_scheduler": _LEARNING_RATE,
    "optimizer": ("reset_optimizer",),
}
_TOLD = ("common", "dataset", "checkpoint", "ema")  # groups of which a change is only said
#: Options that change no number that is learnt: speed, memory, places, what is logged.
_ANYWHERE = (
    "log_interval log_format log_file log_gradient_share no_progress_bar user_dir aim_repo "
    "tensorboard_logdir wandb_project azureml_logging plasma_path num_workers data_buffer_size "
    "max_tokens_valid batch_size_valid save_dir restore_file finetune_from_model continue_once "
    "reset_dataloader reset_lr_scheduler reset_meters reset_optimizer optimizer_overrides tpu cpu "
    "suppress_crashes"
).split()
#: Of the groups that make a run, options that do not make it another one: a change is said.
_HARMLESS = (
    "checkpoint_activations offload_activations min_params_to_wrap token_loss "
    "report_accuracy dataset_impl fp16_adam_stats use_old_adam rebuild_batches eval_bleu "
    "eval_bleu_args eval_bleu_detok eval_bleu_detok_args eval_tokenized_bleu eval_bleu_remove_bpe "
    "eval_bleu_print_samples"
).split()


class Change(NamedTuple):
    """An option that a run was begun with, and has another value now."""

    group: str
    name: str
    before: Any
    now: Any

    def __str__(self):
        return f"{self.name} {_text(self.before)}, now {_text(self.now)}"


def changes(saved: Mapping, now: Mapping) -> Iterator[Change]:
    """Find the options that differ, by groups; those that one side lacks are left out."""
    for group in (*MAKES_A_RUN, *_TOLD):
        before, after = (_options(options.get(group)) for options in (saved, now))
        for name, value in before.items():
            # Of a model the options say all: a name such as transformer_disagree_small is a set.
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
    """Refuse to go on as another run than the one that was begun in the folder.

    fairseq would, and the model would be of both; most often it was the folder that was forgotten.
    Refused, too, is a criterion without an option that it had: the plugin of a term is missing.

    Args:
        path: the last checkpoint of the folder.
        saved: the options in it; None where it has none by groups.
        now: those of the training.
        own: by group, the options that make a method, of which no reset says that a change is
            meant; where there are none, nothing is compared.
        fits: whether the checkpoint could be loaded.

    Returns:
        What has changed otherwise.
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
    """Compare a training with the run that its checkpoint is of, if it goes on with that."""
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
    """Say in the log, in one line, what a run goes on with that it was not begun with."""
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
    """Return the options of a group; of fairseq's older models, which hold all, the model's."""
    if isinstance(group, Namespace):
        parts = ("encoder_", "decoder_", "share_", "dropout", "activation_", "attention_")
        return {name: value for name, value in vars(group).items() if name.startswith(parts)}
    return group or {}


def _same(group: str, name: str, before: Any, now: Any) -> bool:
    if group == "task" and None in (before, now):
        return True  # languages that fairseq finds out by itself
    if (group, name) == ("optimizer", "_name") and {before, now} == {"adam", "fused_adam"}:
        return True  # one formula, one state
    if name == "data":
        folders = [str(value).split(os.pathsep) for value in (before, now)]
        return len(folders[0]) == len(folders[1]) and all(
            os.path.realpath(one) == os.path.realpath(other)
            for one, other in zip(*folders, strict=True)
        )
    return same_value(_text(before), _text(now))


def _copied(options: Mapping) -> list[tuple[str, str]]:
    """Name options of which fairseq keeps copies that say nothing, in the group given or others."""
    copies = [("optimizer", "lr"), ("lr_scheduler", "lr")]
    # A cosine's course depends on the number of updates, but where it has a period of its own.
    if (options.get("lr_period_updates") or 0) > 0:
        copies.append(("lr_scheduler", "max_update"))
    return copies


def _text(value: Any) -> str:
    return str(value).strip("[]()")
