"""Guards: mistakes that fairseq's commands would report late, in a traceback, or not at all.

A hook of fairseq has one wrapper here, with a list of checks. fairseq-fixed 0.12.3.1 prints a
traceback or its usage for an option of another criterion or architecture; a training without
``--arch``, ``--optimizer`` or batch size; fairseq-validate without ``--task``; a language model
with a translation task; ``--replace-unk`` and ``--print-alignment soft``; ``--fp16`` without a GPU
(after making the save folder); ``fused_adam`` with ``--memory-efficient-bf16`` or ``-fp16``;
invalid gradients; Ctrl-C. It leaves the new save folder of a training that is refused, and lets two
trainings write into one.
"""

import difflib
import functools
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import torch
from fairseq import checkpoint_utils, options
from fairseq.distributed import utils
from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    FairseqEncoderDecoderModel,
    FairseqLanguageModel,
)
from fairseq.optim.fp16_optimizer import MemoryEfficientFP16Optimizer
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.trainer import Trainer

from diverse_mha.common.errors import RESUMES, STARTS_OVER, Option, UserError, report_uncaught
from diverse_mha.common.locks import hold
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.best_metric import check_metric
from diverse_mha.fairseq_fixes.checkpoint_options import check_readable
from diverse_mha.fairseq_fixes.patch import patch
from diverse_mha.fairseq_fixes.save_folder import removed_if_refused
from diverse_mha.fairseq_fixes.status import record_divergence


def report_errors(parser: ArgumentParser, words: Sequence[str] | None) -> None:
    """Report user errors and Ctrl-C in one line in programs that parse their own command line.

    ``cli_main`` itself cannot be patched, because it is running when it imports the plugin.
    """
    if words is None:
        resumes = parser.get_default("max_update") is not None  # True for fairseq-train
        advice = RESUMES if resumes else STARTS_OVER
        sys.excepthook = functools.partial(report_uncaught, interrupted=advice)


def give_validation_a_task(parser: ArgumentParser, words: Sequence[str] | None) -> None:
    """Set the default task of fairseq-validate to that of fairseq-generate.

    The default only declares the task's options; validation uses the task in the checkpoint.
    """
    if parser.get_default("task") is None:
        parser.set_defaults(task="translation")


def explain_unknown_options(parser: ArgumentParser, words: Sequence[str] | None) -> None:
    """Let the parser report an unrecognized option with the criterion or the like that has it."""
    arguments, error = sys.argv[1:] if words is None else words, parser.error

    def explained(message: str) -> NoReturn:
        if "unrecognized arguments" in message:
            for word in message.split():
                if word.startswith("--") and word[2:]:
                    explain(word.partition("=")[0], arguments, parser.get_default)
        error(message)

    parser.error = explained


def explain(option: str, arguments: Sequence[str], default=lambda name: None) -> None:
    """Raise an error if the option is that of a criterion, architecture or the like not chosen."""
    name = option[2:].replace("-", "_")
    for choice in _registries():
        chosen = str(_value(arguments, flag(choice)) or default(choice) or "none")
        if names := having(name, choice, chosen):
            raise UserError(
                Option(name, _value(arguments, option)), ": ", Option(choice, chosen),
                " has no such option; give ", Option(choice, names[0]),
                *(f" or {other}" for other in names[1:]),
            )  # fmt: skip


def having(name: str, choice: str, chosen: str) -> list[str]:
    """Return up to three values of ``choice``, such as ``criterion``, with an option ``name``.

    The values are ordered by similarity to the ``chosen`` value.
    """
    registry = _registries()[choice]
    names = [n for n, kind in registry.items() if name in getattr(kind, "__dataclass_fields__", {})]
    ours = [n for n in names if not registry[n].__module__.startswith("fairseq.")] or names
    same_kind = [n for n in ours if ("_lm" in n) == ("_lm" in chosen)] or ours
    return difflib.get_close_matches(chosen, same_kind, 3) or same_kind[:1]


def _registries() -> dict[str, dict]:
    """Return option -> name -> dataclass, for options such as ``criterion``."""
    others = {name: entry["dataclass_registry"] for name, entry in REGISTRIES.items()}
    return {
        "criterion": others.pop("criterion"),
        "arch": MODEL_DATACLASS_REGISTRY,
        "task": TASK_DATACLASS_REGISTRY,
        **others,
    }


def _value(arguments: Sequence[str], option: str) -> str | None:
    """Return the last value given to an option."""
    value = None
    for word, following in pairwise([*map(str, arguments), ""]):
        name, equals, behind = word.partition("=")
        if name in (option, "-a" if option == "--arch" else option):
            value = behind if equals else None if following.startswith("--") else following
    return value


def check_task_of_model(given: Namespace) -> None:
    """Raise an error if the architecture does not fit the task, such as translation for an LM."""
    arch, task = getattr(given, "arch", None), getattr(given, "task", None)
    if wanted := task_for(arch, task, has_blocks=hasattr(given, "tokens_per_sample")):
        raise UserError(
            Option("arch", arch), ": does not go with ", Option("task", task), "; give ",
            Option("task", wanted),
        )  # fmt: skip


def task_for(arch: str | None, task: str | None, *, has_blocks: bool) -> str | None:
    """Return the task that a model of this package needs; None if ``task`` can be its task.

    ``has_blocks`` says whether the task has the option ``--tokens-per-sample``.
    """
    model = ARCH_MODEL_REGISTRY.get(arch)
    if model is None or not model.__module__.startswith("diverse_mha."):
        return None
    if issubclass(model, FairseqLanguageModel):
        return None if has_blocks else "exact_language_modeling"
    if not issubclass(TASK_REGISTRY.get(task, object), LanguageModelingTask):
        return None
    pairs = issubclass(model, FairseqEncoderDecoderModel)
    return "exact_translation" if pairs else "sentence_classification"


def refuse_without_alignments(given: Namespace) -> None:
    """Raise an error for ``--replace-unk``, and for soft alignments in fairseq-interactive."""
    if getattr(given, "replace_unk", None) is not None:
        raise UserError(
            Option("replace_unk"),
            ": not supported, because fairseq's search returns no word alignment; leave it out",
        )
    if getattr(given, "print_alignment", None) == "soft" and hasattr(given, "buffer_size"):
        raise UserError(
            Option("print_alignment", "soft"),
            ": fairseq-interactive prints hard alignments only; give hard, or use fairseq-generate",
        )


#: Called with a parser and its words (None: those of the program) before it parses them.
BEFORE_PARSING = (report_errors, give_validation_a_task, explain_unknown_options)
#: Called with the parsed options.
AFTER_PARSING = (check_task_of_model, refuse_without_alignments)


@patch(options, "parse_args_and_arch")
def check_command_line(parse, parser, input_args=None, *args, **kwargs):
    """Parse a command line of fairseq, with the checks before and after."""
    for check in BEFORE_PARSING:
        check(parser, input_args)
    try:
        parsed = parse(parser, input_args, *args, **kwargs)
    except RuntimeError as error:
        if str(error):  # only the error for a missing --arch has no text
            raise
        raise _missing("model") from None
    for check in AFTER_PARSING:
        check(parsed[0] if isinstance(parsed, tuple) else parsed)
    return parsed


#: Group of the configuration whose name a training needs -> an example.
_NEEDED = {
    "model": "transformer_disagree_small",
    "task": "exact_translation",
    "criterion": "label_smoothed_cross_entropy_with_diversity",
    "optimizer": "adam",
}


def require_settings(cfg) -> None:
    """Raise an error for a training without model, task, criterion, optimizer or batch size."""
    for group in _NEEDED:
        if getattr(cfg.get(group), "_name", None) is None:
            raise _missing(group)
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        raise UserError(
            Option("max_tokens"), " or ", Option("batch_size"), " is missing; give one, such as ",
            Option("max_tokens", 4000),
        )  # fmt: skip


def _missing(group: str) -> UserError:
    option = Option("arch" if group == "model" else group)
    listed = " ('diverse-mha options' lists all)" if group != "optimizer" else ""
    return UserError(option, f" is missing; give one, such as {_NEEDED[group]}{listed}")


def refuse_fp16_on_a_cpu(cfg) -> None:
    """Raise an error for ``--fp16`` without a GPU before training starts."""
    if cfg.common.cpu or not torch.cuda.is_available():
        common = cfg.common
        # fairseq's flat parameters need CUDA; its other two implementations of fp16 do not.
        if common.fp16 and not (common.memory_efficient_fp16 or common.fp16_no_flatten_grads):
            cure = "; leave it out, or give ", Option("bf16", True)
            raise UserError(Option("fp16", True), ": needs a GPU", *cure)


#: Called with the configuration of a training before it starts processes.
BEFORE_TRAINING = (refuse_fp16_on_a_cpu, require_settings)


@patch(utils, "call_main")
def check_training(call, cfg, main, **kwargs):
    """Start a training after the checks, and remove the folder that a refused one has made."""
    if not _trains(call, main):
        return call(cfg, main, **kwargs)
    for check in BEFORE_TRAINING:
        check(cfg)
    # status.json marks a training that has begun, and --no-save writes none.
    removes = cfg.distributed_training.distributed_rank == 0 and not cfg.checkpoint.no_save
    with removed_if_refused(cfg.checkpoint.save_dir) if removes else nullcontext():
        return call(cfg, main, **kwargs)


def _trains(call: Callable, main: Callable) -> bool:
    """Return True if ``main`` is that of fairseq-train, or of ``training/worker.py``."""
    file = Path(getattr(main, "__code__", call.__code__).co_filename).name
    return file in ("train.py", "worker.py")


@patch(MemoryEfficientFP16Optimizer, "__init__")
def refuse_optimizer_without_float32(
    init, self, cfg, params, optimizer, allow_unsupported=False, **kwargs
):
    """Raise an error for an optimizer whose state would be in half precision.

    fairseq names the class, which ``fused_adam`` shares with ``adam``, and no option.
    """
    if not allow_unsupported and not optimizer.supports_memory_efficient_fp16:
        in_bfloat16 = cfg.common.memory_efficient_bf16
        given = f"memory_efficient_{'bf16' if in_bfloat16 else 'fp16'}"
        raise UserError(
            Option("optimizer", cfg.optimizer._name), ": does not go with ", Option(given, True),
            "; give ", Option("optimizer", "adam"), ", or ", Option("bf16", True), " alone",
        )  # fmt: skip
    init(self, cfg, params, optimizer, allow_unsupported, **kwargs)


def check_unlocked(trainer) -> None:
    """Lock the save folder; raise an error if another training has locked it."""
    given = trainer.cfg.checkpoint
    if trainer.is_data_parallel_master and not given.no_save and not hold(given.save_dir):
        raise UserError(
            Option("save_dir", given.save_dir),
            ": in use by another training; wait for it to end, or give another",
        )


#: Called with fairseq's trainer before a checkpoint is looked for.
BEFORE_LOADING = (
    lambda trainer: check_metric(trainer.cfg),
    lambda trainer: check_readable(trainer.cfg),
    check_unlocked,
)


@patch(checkpoint_utils, "load_checkpoint")
def check_model_and_folder(load, cfg, trainer, **passed):
    """Check a training whose model is built, then load its checkpoint."""
    for check in BEFORE_LOADING:
        check(trainer)
    return load(cfg, trainer, **passed)


@patch(Trainer, "train_step")
def report_divergence(original, self, *args, **kwargs):
    """Turn fairseq's errors for invalid gradients into one line.

    In float16 (``--fp16``, ``--amp``) fairseq first halves the loss scale down to its minimum.
    """
    try:
        return original(self, *args, **kwargs)
    except FloatingPointError as error:
        scaled = "Minimum loss scale reached" in str(error)
        if not scaled and "gradients are Nan/Inf" not in str(error):
            raise
        record_divergence(self)
        where = " in float16, at the smallest loss scale" if scaled else ""
        clip, half = Option("clip_norm"), Option("bf16", True)
        cure = ["give ", clip, ", or train with ", half] if scaled else ["or give ", clip]
        raise UserError(
            f"update {self.get_num_updates() + 1}: the gradients are NaN or infinite{where}; "
            "lower the learning rate, warm up longer, ", *cure,
        ) from error  # fmt: skip
