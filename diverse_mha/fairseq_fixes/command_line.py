"""Command lines that fairseq-fixed 0.12.3.1 ends in a traceback or a page of usage.

These are an option that the chosen criterion or architecture lacks, fairseq-validate without
``--task``, a language model with a translation task, ``--replace-unk`` and ``--print-alignment
soft``, ``--fp16`` without a GPU (which also makes the save folder first), and Ctrl-C.
"""

import difflib
import functools
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from fairseq import options
from fairseq.distributed import utils
from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    FairseqEncoderDecoderModel,
    FairseqLanguageModel,
)
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from fairseq.tasks.language_modeling import LanguageModelingTask

from diverse_mha.common.errors import RESUMES, STARTS_OVER, OptionError, say_interrupted
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.patch import in_place_of


@in_place_of(options, "parse_args_and_arch")
def say_what_has_an_option(parse, parser, input_args=None, *args, **kwargs):
    """Explain unrecognized arguments."""
    words, error = sys.argv[1:] if input_args is None else input_args, parser.error

    def explained(message: str) -> None:
        if "unrecognized arguments" in message:
            for word in message.split():
                if word.startswith("--") and word[2:]:
                    explain(word.partition("=")[0], words, parser.get_default)
        error(message)

    parser.error = explained
    return parse(parser, input_args, *args, **kwargs)


def explain(option: str, words: Sequence[str], default=lambda name: None) -> None:
    """Refuse an option if a criterion, architecture or task that was not chosen has it."""
    for choice in _registries():
        dest = choice[2:].replace("-", "_")
        chosen = str(_value(words, choice) or default(dest) or "none")
        names = having(option[2:].replace("-", "_"), choice, chosen)
        if names:
            given = f"{option} {_value(words, option) or ''}".rstrip()
            raise OptionError(
                f"{given}: {choice} {chosen} has no such option; give {choice} {' or '.join(names)}"
            )


def having(name: str, choice: str, chosen: str) -> list[str]:
    """List up to three values of ``choice``, such as ``--criterion``, that have an option.

    They are spelt most like the ``chosen`` value.
    """
    registry = _registries()[choice]
    there = [one for one in registry if name in getattr(registry[one], "__dataclass_fields__", {})]
    ours = [one for one in there if not registry[one].__module__.startswith("fairseq.")] or there
    near = [one for one in ours if ("_lm" in one) == ("_lm" in chosen)] or ours
    return difflib.get_close_matches(chosen, near, 3) or near[:1]


def _registries() -> dict[str, dict]:
    """Return, by choosing option, dataclasses by name."""
    others = {flag(name): entry["dataclass_registry"] for name, entry in REGISTRIES.items()}
    return {
        "--criterion": others.pop("--criterion"),
        "--arch": MODEL_DATACLASS_REGISTRY,
        "--task": TASK_DATACLASS_REGISTRY,
        **others,
    }


def _value(words: Sequence[str], option: str) -> str | None:
    """Return the last value given to an option."""
    value = None
    for word, following in pairwise([*map(str, words), ""]):
        name, equals, behind = word.partition("=")
        if name in (option, "-a" if option == "--arch" else option):
            value = behind if equals else None if following.startswith("--") else following
    return value


@in_place_of(utils, "call_main")
def refuse_fp16_on_a_cpu(call, cfg, main, **kwargs):
    """Check a training's precision, then start it."""
    trains = Path(getattr(main, "__code__", call.__code__).co_filename).name == "train.py"
    if trains and (cfg.common.cpu or not torch.cuda.is_available()):
        for name in ("fp16", "memory_efficient_fp16"):
            if getattr(cfg.common, name):
                raise OptionError(
                    f"--{name.replace('_', '-')}: needs a GPU; leave it out, or give --bf16"
                )
    return call(cfg, main, **kwargs)


@in_place_of(options, "parse_args_and_arch")
def report_interrupts(parse, parser, input_args=None, *args, **kwargs):
    """Report Ctrl-C in one line, in programs that read their own command line."""
    if input_args is None:
        resumes = parser.get_default("max_update") is not None  # of trainings alone
        said = RESUMES if resumes else STARTS_OVER
        sys.excepthook = functools.partial(say_interrupted, interrupted=said)
    return parse(parser, input_args, *args, **kwargs)


@in_place_of(options, "parse_args_and_arch")
def give_validation_a_task(parse, parser, *args, **kwargs):
    """Give fairseq-validate the default task of fairseq-generate.

    Only the options come from it; the checkpoint's task is validated.
    """
    if parser.get_default("task") is None:
        parser.set_defaults(task="translation")
    return parse(parser, *args, **kwargs)


@in_place_of(options, "parse_args_and_arch")
def check_task_of_model(parse, *args, **kwargs):
    """Refuse a language model without a language modeling task, and the reverse."""
    parsed = parse(*args, **kwargs)
    given = parsed[0] if isinstance(parsed, tuple) else parsed
    arch, task = getattr(given, "arch", None), getattr(given, "task", None)
    model = ARCH_MODEL_REGISTRY.get(arch)
    if model is None or not model.__module__.startswith("diverse_mha."):
        return parsed
    is_text_model = issubclass(model, FairseqLanguageModel)
    if is_text_model and not hasattr(given, "tokens_per_sample"):
        wanted = "exact_language_modeling"
    elif not is_text_model and issubclass(TASK_REGISTRY.get(task, object), LanguageModelingTask):
        pairs = issubclass(model, FairseqEncoderDecoderModel)
        wanted = "exact_translation" if pairs else "sentence_classification"
    else:
        return parsed
    raise OptionError(f"--arch {arch}: does not go with --task {task}; give --task {wanted}")


@in_place_of(options, "parse_args_and_arch")
def refuse_without_alignments(parse, *args, **kwargs):
    """Refuse ``--replace-unk``, and soft alignments of fairseq-interactive."""
    parsed = parse(*args, **kwargs)
    given = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(given, "replace_unk", None) is not None:
        raise OptionError(
            "--replace-unk: fairseq cannot copy words, as its search has no alignment by word; "
            "leave it out"
        )
    if getattr(given, "print_alignment", None) == "soft" and hasattr(given, "buffer_size"):
        raise OptionError(
            "--print-alignment soft: fairseq-interactive prints hard alignments alone; give hard, "
            "or use fairseq-generate"
        )
    return parsed
