"""Command lines that end in a traceback with fairseq-fixed 0.12.3.1.

These are fairseq-validate without ``--task``, a language model with a translation task, and any
command at Ctrl-C.
"""

import functools
import sys

from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel, FairseqLanguageModel
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.language_modeling import LanguageModelingTask

from diverse_mha.common.errors import RESUMES, STARTS_OVER, OptionError, say_interrupted
from diverse_mha.fairseq_fixes.replacing import in_place_of


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
