"""Checks of a checkpoint's options: allowed names, plain values, no file paths.

torch's safe loader runs no code. But fairseq-fixed 0.12.3.1 builds a model from the checkpoint's
options, evaluates some of them as Python and opens files that they name.
"""

import ast
import re
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import nullcontext
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict

from diverse_mha.common.errors import Option, UserError

#: fairseq classes that a checkpoint may name; names registered by other packages are allowed too.
ALLOWED = {
    "model": (
        "transformer transformer_align transformer_lm lstm lstm_lm lightconv lightconv_lm"
    ).split(),
    "task": ["translation", "language_modeling"],
    "criterion": (
        "adaptive_loss cross_entropy label_smoothed_cross_entropy "
        "label_smoothed_cross_entropy_with_alignment label_smoothed_cross_entropy_with_rdrop"
    ).split(),
}
#: Options that name files, by group.
FILES = {
    "model": ("encoder_embed_path", "decoder_embed_path"),
    "generation": ("replace_unk",),
    "bpe": (
        "bpe_codes bpe_merges bpe_vocab bpe_vocab_file gpt2_encoder_json gpt2_vocab_bpe "
        "sentencepiece_model sentencepiece_model_path"
    ).split(),
}
#: Options that become parts of file names; path separators are rejected.
FILE_PARTS = ("source_lang", "target_lang", "train_subset", "accuracy_by")
#: Groups with the name of a class that fairseq builds when it loads a checkpoint.
GROUPS = ("model", "task", "criterion", "tokenizer", "bpe", "scoring")
LONGEST_TEXT = 2000  # maximum number of characters in a literal
_RESOLVER = re.compile(r"\$\{.*:", re.DOTALL)  # matches ${oc.env:HOME}, but not ${task.data}
_FILE_PART = re.compile(r"([\w@+-][\w.,@+-]*)?")


def evaluate_option(text: str) -> Any:
    """Replacement for ``eval`` in fairseq's modules: parses literals, runs no code."""
    if not isinstance(text, str):
        raise TypeError(f"a literal is a string, not {type(text).__name__}")
    try:
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"longer than {LONGEST_TEXT} characters")
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise UserError(f"{shorten(text)}: not a literal; refused") from error


def shorten(value: Any) -> str:
    """Return a value's ``repr``, truncated to 120 characters."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def unset_options(options: Any) -> list[str]:
    """Return the names of model options that are None although the architecture has a default."""
    given, default = _plain(options) or {}, Namespace()
    name = given.get("_name") or given.get("arch")
    known = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY.get(name, name))
    if known is not None:
        default = Namespace(**vars(known()))
    elif name in ARCH_CONFIG_REGISTRY:
        ARCH_CONFIG_REGISTRY[name](default)
    known_values = {n: value for n, value in vars(default).items() if value is not None}
    return [n for n, value in known_values.items() if given.get(n, value) is None]


def check_options(path: str, options: Any, given: Collection[str] = ()) -> None:
    """Check a checkpoint's ``cfg`` or flat ``args``; remove options that name files, in place.

    Options in ``given`` are not removed, because their values come from the caller.

    Raises:
        UserError: an option names a class that is not allowed, calls a resolver, or is one of
            ``FILE_PARTS`` but not a plain file name.
    """
    plain = _plain(options)
    for option, text in _texts(plain):
        if why := _unreadable(option, text):
            raise UserError(f"{path}: its option {option} {shorten(text)}: {why}; refused")
    flat = isinstance(options, Namespace)
    for group in GROUPS:
        values = plain if flat else plain.get(group)
        for option, name in _names(group, values, flat):
            if _registered(group, name) is None:
                known = ", ".join(ALLOWED.get(group) or sorted(REGISTRIES[group]["registry"]))
                raise UserError(
                    f"{path}: its option {option} {shorten(name)}: a checkpoint may only name "
                    f"{known}, and each {group} that this package or your own code (",
                    Option("user_dir"), ") registers; refused",
                )  # fmt: skip
    for group in FILES:
        _forget(options if flat else options.get(group), group, given)


def _unreadable(option: str, text: str) -> str | None:
    """Return why a checkpoint's option is refused; None if it is not."""
    if _RESOLVER.search(text):
        return "calls a resolver"
    named = option.rpartition(".")[2] in FILE_PARTS
    return "not a plain file name" if named and not _FILE_PART.fullmatch(text) else None


def check_readable(options: Mapping) -> None:
    """Raise an error before training if its checkpoints could not be reloaded."""
    saved = options
    if OmegaConf.is_config(options):  # as fairseq saves them
        saved = OmegaConf.to_container(options, resolve=True, enum_to_str=True)
    for option, text in _texts(_plain(saved)):
        if why := _unreadable(option, text):
            raise UserError(
                Option(option.rpartition(".")[2], text),
                f": {why}; rename it to letters, digits and _.,@+-, because its checkpoints could "
                "not be reloaded",
            )
    for group in ALLOWED:
        for _, name in _names(group, _plain(getattr(options, group, None)), flat=False):
            if _registered(group, name) is None:
                raise UserError(
                    Option("arch" if group == "model" else group, name),
                    " is not supported, because its checkpoints cannot be reloaded. Supported: ",
                    ", ".join(ALLOWED[group]),
                )


def _plain(value: Any) -> Any:
    """Return options as dictionaries and lists, with interpolations unresolved."""
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value, resolve=False)
    if isinstance(value, Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, name)


def _names(group: str, values: Any, flat: bool) -> Iterator[tuple[str, Any]]:
    """Yield (option, value) for the options that name the class of a group."""
    keys = ["arch" if group == "model" else group]
    if not flat:
        if isinstance(values, str):
            yield group, values
        keys = ["_name", *keys]
    choices = {key: values[key] for key in keys if isinstance(values, dict) and values.get(key)}
    for key, name in choices.items():
        yield key if flat else f"{group}.{key}", name
    if group == "model" and not flat and not choices and isinstance(values, dict) and values:
        yield "model", next(iter(values))  # without a name, fairseq takes the first key as name


def _registered(group: str, name: Any) -> type | None:
    """Return the class registered under a name if a checkpoint may name it, else None."""
    if not isinstance(name, str):
        return None
    if group == "model":
        kind = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
        name = ARCH_MODEL_NAME_REGISTRY.get(name, name)
    else:
        kind = (TASK_REGISTRY if group == "task" else REGISTRIES[group]["registry"]).get(name)
    if kind is None or group not in ALLOWED or name in ALLOWED[group]:
        return kind
    return None if kind.__module__.split(".")[0] in ("fairseq", "examples") else kind


def _forget(options: Any, group: str, given: Collection[str]) -> None:
    """Remove options that name files; fairseq then uses defaults or reports them as missing."""
    held = vars(options) if isinstance(options, Namespace) else options
    if not isinstance(held, MutableMapping):
        return
    with open_dict(held) if isinstance(held, DictConfig) else nullcontext():
        for name in FILES[group]:
            if name in held and name not in given:
                if group == "bpe":
                    del held[name]  # back to fairseq's default
                else:
                    held[name] = None
