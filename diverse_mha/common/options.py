"""Declaring, reading and refusing options.

A method declares its options in a plain dataclass of ``option(...)`` fields beside its code.
``diverse_mha.common.typed`` turns it into the form that fairseq's parsers read.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, field, fields
from typing import Any, NamedTuple

from diverse_mha.common.errors import OptionError


def flag(name: str) -> str:
    """Return an option as on the command line: ``logits_on`` is ``--logits-on``."""
    return "--" + name.replace("_", "-")


def as_keys(message: str, keys: Mapping[str, str]) -> str:
    """Replace options in a message by a recipe's keys; ``keys`` maps option names to keys.

    A cure, what follows a semicolon, has ``++key=value``, which fits every recipe.
    """

    def key(option: re.Match) -> str:
        name, value = keys.get(option[1].replace("-", "_")), option[2] or ""
        if name is None:
            return option[0]
        in_cure = ";" in message[: option.start()]
        if in_cure and name.startswith("checkpoint.reset_"):
            value = " true"  # a flag
        return f"++{name}={value.strip()}" if in_cure and value else name + value

    # A value has a digit, a point or a slash, unlike the next word of the sentence.
    value = r"( (?=\S*[\d./])(?!\w+[.;,]?(?: |$))[^\s,;]+| \d[\w.]*)?"
    return re.sub(rf"(?<![\w-])--([a-z][a-z0-9-]*){value}", key, message)


class Range(NamedTuple):
    """The legal values of an option or argument.

    Attributes:
        words: their description, as in "must be 1 or more".
        legal: returns True for a legal value.
        kind: their type, named to Python callers only.
    """

    words: str
    legal: Callable[[Any], bool]
    kind: str = ""

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError for an illegal argument."""
        if not self.legal(value):
            raise ValueError(f"{name} is {value!r}; expected {self.kind}{self.words}")

    def check_option(self, name: str, value: Any) -> None:
        """Raise OptionError for an illegal option; ``name`` has underscores."""
        if not self.legal(value):
            raise OptionError(f"{flag(name)} {value}: must be {self.words}")


def _at_least(least: int) -> Range:
    def legal(value):
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    return Range(f"{least} or more", legal, "a whole number, ")


ANY_COUNT, COUNT, SEVERAL = map(_at_least, (0, 1, 2))
RATE = Range("at least 0 and below 1", lambda value: 0 <= value < 1)
NOT_NEGATIVE = Range("0 or positive", lambda value: 0 <= value < math.inf, "a finite number, ")
POSITIVE = Range("a positive number", lambda value: 0 < value < math.inf)


def option(
    default: Any,
    text: str,
    *,
    choices: tuple[str, ...] = (),
    legal: Range | None = None,
) -> Any:
    """Declare an option, a field of a dataclass.

    Args:
        default: its default.
        text: its help.
        choices: its legal names; empty allows any value of its type.
        legal: its range; a default of None is always legal.
    """
    return field(default=default, metadata={"help": text, "choices": choices, "range": legal})


def read_options(kind: type, cfg: Any) -> Any:
    """Return an instance of ``kind`` with values, or else defaults, from ``cfg``.

    Raises:
        OptionError: for an illegal value.
    """
    values = {}
    for f in fields(kind):
        value = getattr(cfg, f.name, f.default)
        if f.metadata["choices"]:
            value = check_name(flag(f.name), str(value), f.metadata["choices"])
        elif f.metadata["range"] and value is not None:
            f.metadata["range"].check_option(f.name, value)
        values[f.name] = value
    return kind(**values)


def refuse_idle(cfg: Any, options: Iterable[Field], why: str) -> None:
    """Refuse options that differ from their defaults; ``why`` follows "has no effect"."""
    for f in options:
        value = getattr(cfg, f.name, f.default)
        if _plain(value) != _plain(f.default):
            raise OptionError(f"{flag(f.name)} {value} has no effect {why}")


def _plain(value: Any):
    """Return a comparable value: 1, 1.0 and "1.0" are the same."""
    try:
        return value if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return str(value)


def same_value(one: Any, other: Any) -> bool:
    """Say whether two values mean the same: "1" and 1.0, "1,2" and "1, 2"."""
    first, second = (list(map(_plain, split_list(str(value)))) for value in (one, other))
    return one == other or first == second


def split_list(text: str) -> list[str]:
    """Split a list at its commas and strip the parts."""
    return [word.strip() for word in text.split(",")]


def check_name(option: str, name: str, legal: Iterable[str]) -> str:
    """Return ``name``, or raise OptionError if it is not legal."""
    if name not in legal:
        raise OptionError(f"{option} {name}: choose from {', '.join(legal)}")
    return name


def parse_names(option: str, value: str | None, legal: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a comma-separated list in the order of ``legal``; None has none.

    Raises:
        OptionError: for an unknown or repeated name.
    """
    if value is None:
        return ()
    names = split_list(value)
    for name in names:
        if name not in legal:
            raise OptionError(f"{option} {value}: unknown {name!r}; choose from {', '.join(legal)}")
        if names.count(name) > 1:
            raise OptionError(f"{option} {value}: {name!r} is given twice; name it once")
    return tuple(name for name in legal if name in names)
