"""One-line errors where fairseq-fixed 0.12.3.1 prints a traceback or its usage.

Cases: an option of another criterion or architecture; a training without ``--arch``,
``--optimizer`` or batch size; fairseq-validate without ``--task``; a language model with a
translation task; ``--replace-unk`` and ``--print-alignment soft``; ``--fp16`` without a GPU (after
making the save folder); ``fused_adam`` with ``--memory-efficient-bf16`` or ``-fp16``;
``--use-plasma-view`` without Plasma; a folder named ``a${b}``; Ctrl-C. A training that is refused
leaves no new save folder.
"""

import difflib
import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import torch
from fairseq import options
from fairseq.data import plasma_utils
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

from diverse_mha.common.errors import RESUMES, STARTS_OVER, UserError, report_uncaught
from diverse_mha.common.new_folder import removed_if_refused
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.patch import patch


@patch(options, "parse_args_and_arch")
def explain_unknown_options(parse, parser, input_args=None, *args, **kwargs):
    """Report an unrecognized option, with the criterion, architecture or the like that has it."""
    arguments, error = sys.argv[1:] if input_args is None else input_args, parser.error

    def explained(message: str) -> None:
        if "unrecognized arguments" in message:
            for word in message.split():
                if word.startswith("--") and word[2:]:
                    explain(word.partition("=")[0], arguments, parser.get_default)
        error(message)

    parser.error = explained
    return parse(parser, input_args, *args, **kwargs)


def explain(option: str, arguments: Sequence[str], default=lambda name: None) -> None:
    """Raise an error if the option is that of a criterion, architecture or the like not chosen."""
    for choice in _registries():
        dest = choice[2:].replace("-", "_")
        chosen = str(_value(arguments, choice) or default(dest) or "none")
        names = having(option[2:].replace("-", "_"), choice, chosen)
        if names:
            given = f"{option} {_value(arguments, option) or ''}".rstrip()
            raise UserError(
                f"{given}: {choice} {chosen} has no such option; give {choice} {' or '.join(names)}"
            )


def having(name: str, choice: str, chosen: str) -> list[str]:
    """Return up to three values of ``choice``, such as ``--criterion``, with an option ``name``.

    The values are ordered by similarity to the ``chosen`` value.
    """
    registry = _registries()[choice]
    names = [n for n, kind in registry.items() if name in getattr(kind, "__dataclass_fields__", {})]
    ours = [n for n in names if not registry[n].__module__.startswith("fairseq.")] or names
    same_kind = [n for n in ours if ("_lm" in n) == ("_lm" in chosen)] or ours
    return difflib.get_close_matches(chosen, same_kind, 3) or same_kind[:1]


def _registries() -> dict[str, dict]:
    """Return option -> name -> dataclass, for options such as ``--criterion``."""
    others = {flag(name): entry["dataclass_registry"] for name, entry in REGISTRIES.items()}
    return {
        "--criterion": others.pop("--criterion"),
        "--arch": MODEL_DATACLASS_REGISTRY,
        "--task": TASK_DATACLASS_REGISTRY,
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


#: Group of the configuration whose name a training needs -> an example.
_NEEDED = {
    "model": "transformer_disagree_small",
    "task": "exact_translation",
    "criterion": "label_smoothed_cross_entropy_with_diversity",
    "optimizer": "adam",
}


@patch(options, "parse_args_and_arch")
def require_architecture(parse, *args, **kwargs):
    """Raise an error for a training without ``--arch``."""
    try:
        return parse(*args, **kwargs)
    except RuntimeError as error:
        if str(error):  # only the error for a missing --arch has no text
            raise
        raise _missing("model") from None


@patch(utils, "call_main")
def leave_no_folder_if_refused(call, cfg, main, **kwargs):
    """Remove the save folder that fairseq makes before it checks the options."""
    first = _trains(call, main) and cfg.distributed_training.distributed_rank == 0
    # status.json marks a training that has begun, and --no-save writes none.
    removes = first and not cfg.checkpoint.no_save
    with removed_if_refused(cfg.checkpoint.save_dir) if removes else nullcontext():
        return call(cfg, main, **kwargs)


@patch(utils, "call_main")
def require_settings(call, cfg, main, **kwargs):
    """Raise an error for a training without model, task, criterion, optimizer or batch size."""
    if _trains(call, main):
        for group in _NEEDED:
            if getattr(cfg.get(group), "_name", None) is None:
                raise _missing(group)
        if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
            raise UserError(
                "--max-tokens or --batch-size is missing; give one, such as --max-tokens 4000"
            )
    return call(cfg, main, **kwargs)


def _missing(group: str) -> UserError:
    option = "--arch" if group == "model" else flag(group)
    listed = " ('diverse-mha options' lists all)" if group != "optimizer" else ""
    return UserError(f"{option} is missing; give one, such as {_NEEDED[group]}{listed}")


def _trains(call: Callable, main: Callable) -> bool:
    """Return True if ``main`` is fairseq-train's."""
    return Path(getattr(main, "__code__", call.__code__).co_filename).name == "train.py"


@patch(utils, "call_main")
def refuse_fp16_on_a_cpu(call, cfg, main, **kwargs):
    """Raise an error for ``--fp16`` without a GPU before training starts."""
    if _trains(call, main) and (cfg.common.cpu or not torch.cuda.is_available()):
        common = cfg.common
        # fairseq's flat parameters need CUDA; its other two implementations of fp16 do not.
        if common.fp16 and not (common.memory_efficient_fp16 or common.fp16_no_flatten_grads):
            raise UserError("--fp16: needs a GPU; leave it out, or give --bf16")
    return call(cfg, main, **kwargs)


@patch(MemoryEfficientFP16Optimizer, "__init__")
def refuse_optimizer_without_float32(
    init, self, cfg, params, optimizer, allow_unsupported=False, **kwargs
):
    """Raise an error for an optimizer whose state would be in half precision.

    fairseq names the class, which ``fused_adam`` shares with ``adam``, and no option.
    """
    if not allow_unsupported and not optimizer.supports_memory_efficient_fp16:
        in_bfloat16 = cfg.common.memory_efficient_bf16
        option = "--memory-efficient-bf16" if in_bfloat16 else "--memory-efficient-fp16"
        raise UserError(
            f"--optimizer {cfg.optimizer._name}: does not go with {option}; give --optimizer adam, "
            "or --bf16 alone"
        )
    init(self, cfg, params, optimizer, allow_unsupported, **kwargs)


@patch(utils, "call_main")
def refuse_plasma_in_a_recipe(call, cfg, main, **kwargs):
    """Raise an error for ``common.use_plasma_view`` if there is no Plasma."""
    _check_plasma(cfg.common)
    return call(cfg, main, **kwargs)


@patch(options, "parse_args_and_arch")
def refuse_plasma(parse, *args, **kwargs):
    """Raise an error for ``--use-plasma-view`` before fairseq-train tries to start Plasma."""
    parsed = parse(*args, **kwargs)
    _check_plasma(parsed[0] if isinstance(parsed, tuple) else parsed)
    return parsed


def _check_plasma(given) -> None:
    if getattr(given, "use_plasma_view", False) and not plasma_utils.PYARROW_AVAILABLE:
        raise UserError(
            "--use-plasma-view: needs pyarrow.plasma, which pyarrow 12 removed; leave it out "
            "(batches stay the same)"
        )


@patch(plasma_utils, "PlasmaView")
def keep_blocks_in_memory(view, array, *args, **kwargs):
    """Keep data in the process's memory if a checkpoint asks for Plasma, which is missing."""
    if plasma_utils.PYARROW_AVAILABLE:
        return view(array, *args, **kwargs)
    return plasma_utils.PlasmaArray(array)


@patch(options, "parse_args_and_arch")
def refuse_references(parse, parser, input_args=None, *args, **kwargs):
    """Raise an error for a value with ``${``, such as a path, which OmegaConf would resolve."""
    parsed = parse(parser, input_args, *args, **kwargs)
    given = parsed[0] if isinstance(parsed, tuple) else parsed
    words = {str(word) for word in (sys.argv[1:] if input_args is None else input_args)}
    words |= {word.partition("=")[2] for word in words}
    for name, value in vars(given).items():
        if isinstance(value, str) and "${" in value and value in words:
            option = name if name == "data" else flag(name)
            raise UserError(f"{option} {value}: OmegaConf reads ${{ as a reference; rename it")
    return parsed


@patch(options, "parse_args_and_arch")
def report_errors(parse, parser, input_args=None, *args, **kwargs):
    """Report user errors and Ctrl-C in one line in programs that parse their own command line.

    ``cli_main`` itself cannot be patched, because it is running when it imports the plugin.
    """
    if input_args is None:
        resumes = parser.get_default("max_update") is not None  # True for fairseq-train
        advice = RESUMES if resumes else STARTS_OVER
        sys.excepthook = functools.partial(report_uncaught, interrupted=advice)
    return parse(parser, input_args, *args, **kwargs)


def is_hydra_train() -> bool:
    """Return True if this program is fairseq-hydra-train."""
    name = "fairseq_cli.hydra_train"
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return name in sys.modules or getattr(spec, "name", None) == name


if is_hydra_train():  # fairseq-hydra-train parses its options before it imports the plugin
    sys.excepthook = report_uncaught


@patch(options, "parse_args_and_arch")
def give_validation_a_task(parse, parser, *args, **kwargs):
    """Set the default task of fairseq-validate to that of fairseq-generate.

    The default only declares the task's options; validation uses the task in the checkpoint.
    """
    if parser.get_default("task") is None:
        parser.set_defaults(task="translation")
    return parse(parser, *args, **kwargs)


@patch(options, "parse_args_and_arch")
def check_task_of_model(parse, *args, **kwargs):
    """Raise an error if the architecture does not fit the task, such as translation for an LM."""
    parsed = parse(*args, **kwargs)
    given = parsed[0] if isinstance(parsed, tuple) else parsed
    arch, task = getattr(given, "arch", None), getattr(given, "task", None)
    if wanted := task_for(arch, task, has_blocks=hasattr(given, "tokens_per_sample")):
        raise UserError(f"--arch {arch}: does not go with --task {task}; give --task {wanted}")
    return parsed


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


@patch(options, "parse_args_and_arch")
def refuse_without_alignments(parse, *args, **kwargs):
    """Raise an error for ``--replace-unk``, and for soft alignments in fairseq-interactive."""
    parsed = parse(*args, **kwargs)
    given = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(given, "replace_unk", None) is not None:
        raise UserError(
            "--replace-unk: not supported, because fairseq's search returns no word alignment; "
            "leave it out"
        )
    if getattr(given, "print_alignment", None) == "soft" and hasattr(given, "buffer_size"):
        raise UserError(
            "--print-alignment soft: fairseq-interactive prints hard alignments only; give hard, "
            "or use fairseq-generate"
        )
    return parsed
