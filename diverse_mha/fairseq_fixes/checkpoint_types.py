"""Whether the options in a checkpoint are of the types that their owners declare."""

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from fairseq.dataclass.utils import interpret_dc_type, merge_with_parent
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.literals import evaluate_literal


def shorten(value: Any) -> str:
    """Write a value so that it fits into a line."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def check_types(
    path: str, prefix: str, owner: type, values: Mapping[str, Any], flat: bool = False
) -> None:
    """Check the options that a class declares, as a dataclass or with ``add_args``.

    The class is a dataclass of options, or a model, task or other class that is built from them;
    options that it does not declare are not looked at. Those of the old flat form may be texts
    where numbers or lists are meant. Messages put ``prefix`` before the name of an option.

    Raises:
        OptionError: naming checkpoint, option and value, at the first that is of another type.
    """
    schema = owner if is_dataclass(owner) else getattr(owner, "__dataclass", None)
    wrong = _against_parser(owner, values) if schema is None else _against(schema, values, flat)
    for name, why in wrong:
        value = shorten(values[name])
        own = "; one of your own needs --user-dir" if "expected one of" in why else ""
        raise OptionError(f"{path}: its option {prefix}{name} {value}: {why}{own}; refused")


def _against(schema, values, flat):
    """Yield the options that a dataclass does not take, and why."""
    known = {}
    for field in fields(schema):
        if field.name not in values or field.name.startswith("_"):
            continue
        value, kind = values[field.name], interpret_dc_type(field.type)
        # A reference is found when it is used, and so is what nobody gave.
        if isinstance(value, str) and ("${" in value or value == MISSING):
            continue
        if flat:
            if field.name == "data" or not isinstance(value, str | list):
                continue  # fairseq converts what older versions wrote
            plain = kind is str or isinstance(kind, type) and issubclass(kind, Enum)
            if isinstance(value, str) and not plain:
                try:
                    value = evaluate_literal(value)
                except ValueError as error:
                    yield field.name, str(error)
        known[field.name] = value
    if _why_not(schema, known):
        for name, value in known.items():
            if why := _why_not(schema, {name: value}):
                yield name, why


def _why_not(schema, values) -> str:
    try:
        merge_with_parent(schema(), OmegaConf.create(values), True)
    except (OmegaConfBaseException, ValueError, TypeError) as error:
        return str(error).split("\n")[0]
    return ""


def _against_parser(owner, values):
    """Yield the texts, and lists of texts, that the command line would not take, and why."""
    parser = ArgumentParser(allow_abbrev=False)
    if hasattr(owner, "add_args"):
        owner.add_args(parser)
    for action in parser._actions:
        value = values.get(action.dest)
        kind = action.type or str
        listed = isinstance(value, list) and any(isinstance(item, str) for item in value)
        if not listed and not isinstance(value, str):
            continue
        if action.nargs == 0:
            yield action.dest, "must be true or false"
            continue
        try:
            read = kind(repr(value) if listed else value)
        except (ValueError, TypeError):
            yield action.dest, "not what the command line takes for it"
            continue
        if listed and not isinstance(read, list):
            yield action.dest, "must not be a list"
        elif action.choices is not None and read not in action.choices:
            yield action.dest, f"choose from {', '.join(map(str, action.choices))}"
