"""Checkpoints with options that would run code if evaluated, and a watch that detects the code."""

import copy
import dataclasses
import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from types import CodeType

from fairseq import options

from diverse_mha.common.errors import UserError
from diverse_mha.fairseq_fixes import checkpoint_options
from tests.analysis.conftest import untrained

CANARY = "canary"
EXPRESSION = f"__import__('os').system('touch {CANARY}')"

SIDES = {"translation": ("encoder", "decoder"), "language_modeling": ("decoder",)}
SHAPE = "--{0}-embed-dim 16 --{0}-ffn-embed-dim 24 --{0}-layers 2 --{0}-attention-heads 4"
RECURRENT = "--{0}-embed-dim 16 --{0}-hidden-size 16"
LIGHT = SHAPE + " --{0}-kernel-size-list [3,3]"
SHAPES = {"lstm": RECURRENT, "lightconv": LIGHT}


class Watch:
    """Records when Python runs, opens, imports or connects to anything with ``CANARY`` in its name.

    Opening a file in a folder ``bin`` is allowed: names of data files contain the languages.
    """

    EVENTS = ("exec", "open", "import", "os.", "subprocess.", "socket.", "urllib.", "ctypes.")

    def __init__(self):
        self.seen, self.watching = [], False
        sys.addaudithook(self.look)

    def look(self, event, arguments):
        if not self.watching or not event.startswith(self.EVENTS):
            return
        self.watching = False  # this function may itself raise audit events
        texts = [str(x.co_consts) if isinstance(x, CodeType) else str(x) for x in arguments]
        inside = event == "open" and os.path.basename(os.path.dirname(texts[0])) == "bin"
        if any(CANARY in text for text in texts) and not inside:
            self.seen.append((event, *texts))
        self.watching = True

    @contextmanager
    def on(self):
        """Context manager: record events in its block, and fail if there are any."""
        self.seen, self.watching = [], True
        try:
            yield
        finally:
            self.watching = False
        assert not self.seen, self.seen


def fields(group: str, name: str) -> list[str]:
    """Return the options of a model, task or criterion."""
    owner = checkpoint_options._registered(group, name)
    schema = getattr(owner, "__dataclass", None)
    if schema is not None:
        return [f.name for f in dataclasses.fields(schema) if f.name != "_name"]
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    if hasattr(owner, "add_args"):
        owner.add_args(parser)
    return [action.dest for action in parser._actions]


def task_of(group: str, name: str) -> str:
    """Return the task of a model or criterion."""
    if group == "task":
        return name
    if name.startswith("sentence_class"):
        return "sentence_classification"
    is_language_model = name.endswith("_lm") or "_lm_" in name or name.startswith("adaptive")
    return "language_modeling" if is_language_model else "translation"


def arguments(group: str, name: str, folders: dict[str, str]) -> Namespace:
    """Return the parsed arguments of a training of a tiny model that has the component ``name``."""
    task = task_of(group, name)
    kind = (
        "sentence_classification"
        if task == "sentence_classification"
        else ("translation" if "translation" in task else "language_modeling")
    )
    default = {"translation": "transformer", "language_modeling": "transformer_lm"}.get(
        kind, "sentence_classifier"
    )
    model = name if group == "model" else default
    shape = SHAPES.get(model.removesuffix("_lm"), SHAPE)
    arguments = [folders[kind], "--task", task, "--arch", model]
    for side in SIDES.get(kind, ("encoder",)):
        arguments += shape.format(side).split()
    if kind == "translation":  # required by fairseq's moses tokeniser
        arguments += ["--source-lang", "src", "--target-lang", "tgt"]
    if model == "lightconv":
        arguments += ["--encoder-conv-dim", "16", "--decoder-conv-dim", "16"]
    if model.startswith("lstm"):
        arguments += ["--decoder-out-embed-dim", "16"]
    if name.startswith("adaptive"):
        # fairseq's adaptive loss refuses the default DDP backend, even in one process.
        arguments += ["--adaptive-softmax-cutoff", "4,8", "--ddp-backend", "legacy_ddp"]
    criterion = name if group == "criterion" else "cross_entropy"
    if kind == "sentence_classification":
        criterion = "sentence_classification_with_diversity"
    arguments += ["--criterion", criterion]
    if group in ("tokenizer", "bpe"):
        arguments += [f"--{group}", name]
    return options.parse_args_and_arch(options.get_training_parser(task), arguments)


def healthy(group: str, name: str, folders: dict[str, str]) -> tuple[dict, Namespace]:
    """Return an untrained checkpoint of fairseq, and its flat options."""
    args = arguments(group, name, folders)
    return untrained(args), args


def poisoned(state: dict, args: Namespace | None, group: str, names: list[str], value) -> dict:
    """Return a copy of a checkpoint in which the options ``names`` of a group have ``value``.

    With ``args``, the copy has a flat namespace of options, as in older versions of fairseq.
    """
    if args is not None:
        flat = Namespace(**{**vars(args), **dict.fromkeys(names, value)})
        return {**state, "args": flat, "cfg": None}
    cfg = copy.deepcopy(state["cfg"])
    part = vars(cfg[group]) if isinstance(cfg[group], Namespace) else cfg[group]
    part.update(dict.fromkeys(names, value))
    return {**state, "cfg": cfg}


def attempt(run, watch: Watch) -> str:
    """Call ``run``, which reads a poisoned checkpoint; return its one-line error, or "".

    Fail if the expression is executed or opened as a file. Other errors are not caught.
    """
    with watch.on():
        try:
            run()
        except UserError as error:
            line = str(error)
            assert line and "\n" not in line
            return line
    return ""
