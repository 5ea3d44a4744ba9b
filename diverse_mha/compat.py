"""The few fixes that fairseq needs on today's torch. Imported before anything else of ours.

fairseq offers no hooks for most of them: its functions are replaced. Others are in ``common/``: no
evaluation, and checked options (``checkpoint_guard``), the best checkpoints by any score
(``best_checkpoints``), whole texts in fairseq-eval-lm (``scored_blocks``), going on with another
number of processes (``resuming``) or other batches (``epoch_parts``), all examples in every epoch
(``whole_epochs``), averages of tied tables (``moving_average``), diverse beams (``diverse_beams``),
options that nothing chosen has (``missing_options``) or that cannot work (``alignment_options``).
"""

import argparse
import collections
import os
import pickle
import re
import shutil
import sys
import types
import warnings
import zipfile
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, nan_detector, options
from fairseq.data import bucket_pad_length_dataset, data_utils, iterators
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel, FairseqLanguageModel
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from omegaconf import AnyNode, DictConfig, ListConfig, OmegaConf
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.errors import OmegaConfBaseException

from diverse_mha.common import (
    alignment_options,  # noqa: F401
    best_checkpoints,  # noqa: F401
    checkpoint_guard,
    diverse_beams,  # noqa: F401
    missing_options,  # noqa: F401
    moving_average,  # noqa: F401
    scored_blocks,  # noqa: F401
    whole_epochs,  # noqa: F401
)
from diverse_mha.common.checkpoint_options import check_readable
from diverse_mha.common.epoch_parts import cut_again
from diverse_mha.common.errors import OptionError, describe_os_error
from diverse_mha.common.files import whole_file
from diverse_mha.common.finite_weights import check_finite
from diverse_mha.common.old_checkpoints import mend_language_model
from diverse_mha.common.options import flag
from diverse_mha.common.places import NOT_FILLED_IN
from diverse_mha.common.processes import hold
from diverse_mha.common.replacing import in_place_of
from diverse_mha.common.resuming import note_processes, same_place, say_batch, stop_if_done
from diverse_mha.common.same_run import compare_runs, say_changes
from diverse_mha.common.starting_point import FINETUNE, check_settings, check_start
from diverse_mha.common.time_left import say_length

#: What loading a file raises that is cut off, no checkpoint, or refused.
LOADING_ERRORS = (
    RuntimeError,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    OSError,
    pickle.UnpicklingError,
)
#: How many matrix products oneDNN keeps compiled, in bfloat16 on the CPU one for each shape it has
#: met: those of one update. Of a thousand, its default, a small model's training holds a gigabyte
#: for nothing: fairseq's batches come in hundreds of shapes, some forty of them new in an update.
ONEDNN_CACHED_SHAPES = "64"
#: The checkpoint read last, and the options in it.
_last_read: dict = {}
_NUMPY_DTYPES = ("float64", "float32", "int64", "int32", "bool")


def plain_classes() -> list:
    """List the classes and functions that fairseq's checkpoints hold beside tensors.

    torch's loader builds none that it was not told of, and nothing that runs code on loading is
    among them. As ``torch.serialization.add_safe_globals`` takes them: an object, or an object
    and the name it goes by in the file.
    """
    numpy = [np.ndarray, np.dtype]
    # numpy 2 renamed the folder; a checkpoint has the name of the numpy that wrote it.
    for function in (np.array([0]).__reduce__()[0], np.float64(0).__reduce__()[0]):
        for folder in ("core", "_core"):
            numpy.append((function, f"numpy.{folder}.multiarray.{function.__name__}"))
    numpy += [type(np.dtype(name)) for name in _NUMPY_DTYPES]
    # Written when a resumed run with several processes broadcasts its state.
    broadcast = [DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any]
    broadcast.append(distributed_utils._TensorPlaceholder)
    plain = [argparse.Namespace, collections.defaultdict]
    return numpy + broadcast + plain + [dict, list, int, float, str, bool, tuple, set]


def checkpoint_error(path: str, error: Exception) -> OptionError:
    """Say in one line why a checkpoint was not loaded, by one of ``LOADING_ERRORS``."""
    whole = os.path.isfile(path) and zipfile.is_zipfile(path)  # torch's format since 1.6
    if isinstance(error, OSError) and error.filename is not None:
        return OptionError(f"checkpoint {describe_os_error(error)}")
    if isinstance(error, pickle.UnpicklingError) and _refused(str(error), path):
        why = "holds more than tensors and plain values, and loading it could run code; refused"
    elif isinstance(error, EOFError | OSError | pickle.UnpicklingError) or not whole:
        why = "is cut off or not a checkpoint; give a whole one, such as an earlier one of the run"
    elif isinstance(error, LookupError | TypeError | AttributeError):
        why = "is no fairseq checkpoint; give one that fairseq-train wrote"
    else:
        first = next(iter(str(error).splitlines()), "")
        return OptionError(f"{path}: cannot be loaded: {type(error).__name__}: {first}")
    return OptionError(f"{path}: {why} ({type(error).__name__})")


def _refused(message: str, path: str) -> bool:
    """Whether torch's safe loader met what it does not load, rather than no pickle at all."""
    if "Unsupported operand" in message:
        with open(path, "rb") as file:
            if file.read(2) not in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
                return False
    return "weights_only" in message.lower()


@in_place_of(checkpoint_utils, "load_checkpoint_to_cpu")
def load_or_explain(load, path, arg_overrides=None, *args, **kwargs):
    """Load a checkpoint; one that is cut off, refused or NaN ends in one line that names it."""
    try:
        with checkpoint_guard.reading(str(path), arg_overrides):
            state = load(path, arg_overrides, *args, **kwargs)
        mend_language_model(state)
        note_processes(state)
        check_finite(str(path), state.get("model"))
        _last_read.update(path=str(path), cfg=state.get("cfg"))
        return state
    except OptionError:
        raise
    except LOADING_ERRORS as error:
        raise checkpoint_error(path, error) from error


class WholeCopies(PathManager):
    """fairseq's file functions, but a copy replaces its target once it is complete.

    fairseq writes one file a save and copies it to the others (checkpoint_last.pt,
    checkpoint_best.pt) in place: a run killed meanwhile, or a full disk, would leave a broken one
    where a whole one was.
    """

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False):
        """Copy a file; remote ones as fairseq does.

        Raises:
            OptionError: if the operating system refuses.
        """
        if not PathManager.supports_rename(dst_path):
            return PathManager.copy(src_path, dst_path, overwrite)
        with refusals_named(dst_path), open(src_path, "rb") as source, whole_file(dst_path) as file:
            shutil.copyfileobj(source, file, 2**20)
        return dst_path


@contextmanager
def refusals_named(path: str):
    """Turn what the operating system refuses while ``path`` is written into one line.

    Raises:
        OptionError: instead of an OSError, or of an error that torch made of one.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        refused = error if isinstance(error, OSError) else error.__context__
        if isinstance(refused, SystemExit | KeyboardInterrupt):
            raise refused from None  # torch's writer, left in between, raised an error of its own
        if not isinstance(refused, OSError):
            raise
        named = OSError(refused.errno, refused.strerror, path)
        raise OptionError(f"checkpoint not saved: {describe_os_error(named)}") from error


@in_place_of(checkpoint_utils, "torch_persistent_save")
def save_whole(save, obj, filename, async_write: bool = False):
    """Write a checkpoint, which replaces another of its name once it is complete."""
    if async_write or not PathManager.supports_rename(filename):
        return save(obj, filename, async_write)
    with refusals_named(filename), whole_file(filename) as file:
        torch.save(obj, file)


@in_place_of(checkpoint_utils, "load_checkpoint")
def check_and_load(load, cfg, trainer, **passed):
    """Look at a training once more before it starts, where fairseq hands out all of it.

    The size of an update is said, which grows with the number of GPUs. A checkpoint that lacks a
    part of ours may be fine-tuned (:mod:`diverse_mha.models.warm_start`).

    Raises:
        OptionError: if another training is at work in the folder, the checkpoint to start from is
            not there, does not fit, is of another method or seed or has all updates that were
            asked for, the criterion cannot do with the model, or checkpoints would be refused
            when read.
    """
    criterion = trainer.get_criterion()
    ours = hasattr(criterion, "check_model")
    check_settings(trainer.cfg, cfg.best_checkpoint_metric, ours)
    check_readable(trainer.cfg)
    if trainer.is_data_parallel_master and not cfg.no_save and not hold(cfg.save_dir):
        raise OptionError(
            f"--save-dir {cfg.save_dir}: another training is at work there; wait for it to "
            "end, or name another"
        )
    # The best score so far outlives a training where several run in one process, as in a
    # sweep; a resumed one finds its own in the checkpoint.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for module in ("fairseq_cli.train", "__main__"):  # likewise what --patience counts
        stop = getattr(sys.modules.get(module), "should_stop_early", None)
        vars(stop).clear() if stop else None
    option, path = check_start(
        cfg.save_dir,
        cfg.restore_file,
        cfg.finetune_from_model,
        getattr(cfg, "continue_once", None),
        suffix=trainer.checkpoint_suffix or "",
        exists=PathManager.exists,
    )
    decoder = getattr(trainer.get_model(), "decoder", None)
    if hasattr(decoder, "aligns_in_training"):
        decoder.aligns_in_training = hasattr(criterion, "alignment_lambda")
    if ours:
        criterion.check_model(trainer.get_model())
    loading = getattr(trainer.get_model(), "loading", None)
    try:
        warm = loading(path, warm=option == FINETUNE) if loading else nullcontext()
        with warm, same_place(trainer.cfg):
            loaded = load(cfg, trainer, **passed)
    except Exception as error:
        # The options say more than what follows from them.
        compare_runs(trainer, option, path, _last_read, fits=False)
        # fairseq begins an average of weights that it has let go of.
        if isinstance(error, KeyError) and trainer.cfg.ema.store_ema and error.args == ("model",):
            raise OptionError(f"--store-ema: {path} has no average to go on with") from error
        if isinstance(error, AssertionError) and "please reset the optimizer" in str(error):
            raise OptionError(f"{path}: {error}") from error
        raise
    say_changes(path, compare_runs(trainer, option, path, _last_read))
    stop_if_done(trainer, path, *loaded)
    say_batch(trainer.cfg)
    say_length(trainer, loaded[1])
    return loaded


@in_place_of(FairseqTask, "get_batch_iterator")
def batches_of_whole_split(get, self, dataset, **settings):
    """Let the batches of whatever is not trained on hold every sentence, whatever the task.

    fairseq-fixed leaves out the last sentences of a validation or test split if their number is
    not a multiple of ``--required-batch-size-multiple`` (8 by default): 1,008 of 1,014. In
    training ``common/whole_epochs.py`` keeps them. Nor are their batches drawn anew with each
    validation, as those of training are with ``--rebuild-batches``.
    """
    # How to shuffle groups is said by fairseq's Trainer for the training subset alone.
    if "grouped_shuffling" in settings:
        return cut_again(get, self, dataset, settings)
    settings["required_batch_size_multiple"] = 1
    rebuilt = getattr(self.cfg, "rebuild_batches", None)
    if rebuilt:
        self.cfg.rebuild_batches = False
    try:
        return get(self, dataset, **settings)
    finally:
        if rebuilt:
            self.cfg.rebuild_batches = rebuilt


@in_place_of(FairseqTask, "filter_indices_by_size")
def name_what_is_too_long(keep, self, indices, dataset, *args, **kwargs):
    """Refuse in one line an example of valid or test that is longer than the model reads.

    Raises:
        OptionError: naming the data, the split and the example, counted from 1.
    """
    try:
        return keep(self, indices, dataset, *args, **kwargs)
    except Exception as error:  # fairseq raises just that
        said = re.fullmatch(r"Size of sample #(\d+) is invalid .* since (.*), skip .*", str(error))
        if said is None:
            raise
        split = next((name for name, one in self.datasets.items() if one is dataset), "the text")
        size = " and ".join(f"{n:,}" for n in np.ravel(dataset.size(int(said[1]))))
        given = self.cfg or self.args  # which fairseq's older tasks have in its place
        raise OptionError(
            f"{getattr(given, 'data', None)}: example {int(said[1]) + 1} of {split} has {size} "
            f"tokens, more than the model reads ({said[2]}); shorten it, or leave it out"
        ) from error


@in_place_of(iterators.EpochBatchIterator, "_get_iterator_for_epoch")
def shuffle_after_a_curriculum(get, self, epoch, shuffle, *args, **kwargs):
    """Let an epoch be shuffled, or not, as its number says.

    With ``--curriculum`` fairseq goes on in the order of its first epochs until it is started
    again.
    """
    if self.dataloader is not None:
        self.epoch_batch_sampler.shuffle = shuffle
    return get(self, epoch, shuffle, *args, **kwargs)


@in_place_of(options, "parse_args_and_arch")
def give_validation_a_task(parse, parser, *args, **kwargs):
    """Let fairseq-validate parse its command line by the task that fairseq-generate has.

    It has no default, and ends in a KeyError without ``--task``. Only the options come from it:
    what is validated is the task of the checkpoint.
    """
    if parser.get_default("task") is None:
        parser.set_defaults(task="translation")
    return parse(parser, *args, **kwargs)


@in_place_of(options, "parse_args_and_arch")
def refuse_what_would_be_filled_in(parse, *args, **kwargs):
    """Refuse a value with ``${``, such as a folder's name, which OmegaConf takes for a reference.

    Raises:
        OptionError: naming the option and the value, if it refers to nothing.
    """
    parsed = parse(*args, **kwargs)
    for name, value in vars(parsed[0] if isinstance(parsed, tuple) else parsed).items():
        if isinstance(value, str) and "${" in value:
            try:
                OmegaConf.to_container(OmegaConf.create({name: value}), resolve=True)
            except OmegaConfBaseException as error:
                raise OptionError(f"{flag(name)} {value}: {NOT_FILLED_IN}") from error
    return parsed


@in_place_of(options, "parse_args_and_arch")
def check_task_of_model(parse, *args, **kwargs):
    """Refuse a language model without its task, which fairseq's default is not, and the reverse.

    fairseq then stumbles over what the one expects of the other.

    Raises:
        OptionError: naming both, and the task to give.
    """
    parsed = parse(*args, **kwargs)
    given = parsed[0] if isinstance(parsed, tuple) else parsed
    arch, task = getattr(given, "arch", None), getattr(given, "task", None)
    model = ARCH_MODEL_REGISTRY.get(arch)
    if model is None or not model.__module__.startswith("diverse_mha."):
        return parsed
    is_text_model = issubclass(model, FairseqLanguageModel)
    if is_text_model and not hasattr(given, "tokens_per_sample"):
        wanted = "diverse_language_modeling"
    elif not is_text_model and issubclass(TASK_REGISTRY.get(task, object), LanguageModelingTask):
        pairs = issubclass(model, FairseqEncoderDecoderModel)
        wanted = "diverse_translation" if pairs else "sentence_classification"
    else:
        return parsed
    raise OptionError(f"--arch {arch}: does not go with --task {task}; give --task {wanted}")


def quiet_fairseq() -> None:
    """Silence what every run says of fairseq's own use of Hydra and torch; users cannot mend it."""
    for category, where in (
        (UserWarning, {"module": r"hydra\."}),
        (UserWarning, {"message": r"\s*'config' is validated against ConfigStore schema"}),
        (FutureWarning, {"message": r"`torch\.cuda\.amp\."}),
        (UserWarning, {"message": r"'pin_memory' argument is set as true but no accelerator"}),
        (UserWarning, {"message": r"Support for mismatched key_padding_mask and attn_mask"}),
    ):
        warnings.filterwarnings("ignore", category=category, **where)


def bucket_sizes(sizes, num_buckets: int) -> np.ndarray:
    """Cut sizes into buckets of about as many; returns the largest of each, without repeats.

    For ``--num-batch-buckets`` fairseq asks for ``percentile(interpolation=...)``, which numpy 2
    has not got.
    """
    shares = np.linspace(0, 100, num_buckets + 1)[1:]
    return np.unique(np.percentile(sizes, shares, method="lower"))


data_utils.get_buckets = bucket_pad_length_dataset.get_buckets = bucket_sizes
if not hasattr(np, "compat"):  # for --sample-break-mode eos; gone in numpy 2
    np.compat = types.SimpleNamespace(long=int)
torch.serialization.add_safe_globals(plain_classes())
checkpoint_utils.PathManager = WholeCopies
checkpoint_guard.install()
# fairseq looks for the module in which a NaN arises with backward hooks that today's torch refuses,
# and dies of that. Of the forward pass alone it says what it had to say.
nan_detector.NanDetector.__init__.__defaults__ = (True, False)
quiet_fairseq()
# Hydra cuts tracebacks, and so prints one where an error of ours is a single line.
os.environ.setdefault("HYDRA_FULL_ERROR", "1")
for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(cache, ONEDNN_CACHED_SHAPES)
