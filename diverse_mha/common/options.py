"""Options: how they are spelt, which values are legal, and how lists of names are read.

A method declares its options in a plain dataclass of ``option(...)`` fields beside its code;
``diverse_mha.common.typed`` makes of them what fairseq's parsers understand.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, field, fields
from typing import Any, NamedTuple

from diverse_mha.common.errors import OptionError


def flag(name: str) -> str:
    """Spell an option as on the command line: ``logits_on`` is ``--logits-on``."""
    return "--" + name.replace("_", "-")


def as_keys(message: str, keys: Mapping[str, str]) -> str:
    """Spell options in a message as the keys of a recipe, which ``keys`` has by option name."""

    def key(option: re.Match) -> str:
        return keys.get(option[1].replace("-", "_"), option[0])

    return re.sub(r"(?<![\w-])--([a-z][a-z0-9-]*)", key, message)


class Range(NamedTuple):
    """The values that an option, and the argument behind it, may have.

    Attributes:
        words: what they are, as in "must be 1 or more".
        legal: whether a value is one of them.
        kind: what a Python caller is told besides, for a command line checks types itself.
    """

    words: str
    legal: Callable[[Any], bool]
    kind: str = ""

    def check(self, name: str, value: Any) -> None:
        """Refuse an argument."""
        if not self.legal(value):
            raise ValueError(f"{name} is {value!r}; expected {self.kind}{self.words}")

    def check_option(self, name: str, value: Any) -> None:
        """Refuse an option of the name ``name``, with underscores."""
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
    goes_with: tuple[str, str] | None = None,
) -> Any:
    """Declare an option, a field of a dataclass.

    Args:
        default: its default.
        text: its help.
        choices: the names it may have; none for any value of its type.
        legal: its range; None, if the default, is always legal.
        goes_with: another option of the dataclass and its value without which this one has no
            effect; see :func:`refuse_alone`.
    """
    metadata = {"help": text, "choices": choices, "range": legal, "goes_with": goes_with}
    return field(default=default, metadata=metadata)


def read_options(kind: type, cfg: Any) -> Any:
    """Read a method's options off all options; what these lack has its default.

    Returns:
        An instance of ``kind``.
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
    """Refuse options that were given and would do nothing, with ``why`` behind "has no effect"."""
    for f in options:
        value = getattr(cfg, f.name, f.default)
        if _plain(value) != _plain(f.default):
            raise OptionError(f"{flag(f.name)} {value} has no effect {why}")


def refuse_alone(kind: type, cfg: Any) -> None:
    """Refuse options of a dataclass that were given without the value of another they go with."""
    defaults = {f.name: f.default for f in fields(kind)}
    for f in fields(kind):
        if f.metadata["goes_with"]:
            other, needed = f.metadata["goes_with"]
            found = str(getattr(cfg, other, defaults[other]))
            if found != needed:
                refuse_idle(cfg, [f], f"with {flag(other)} {found}; it goes with {needed}")


def _plain(value: Any):
    """Return what an option means: 1, 1.0 and "1.0" are the same weight."""
    try:
        return value if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return str(value)


def same_value(one: Any, other: Any) -> bool:
    """Whether two values mean the same: "1" and 1.0, encoder=1 and encoder=1.0."""
    first, second = (
        [_plain(part) for word in split_list(str(value)) for part in word.partition("=")]
        for value in (one, other)
    )
    return one == other or first == second


def split_list(text: str) -> list[str]:
    """Cut a list at its commas; spaces around them do not count."""
    return [word.strip() for word in text.split(",")]


def check_name(option: str, name: str, legal: Iterable[str]) -> str:
    """Return a name that is legal."""
    if name not in legal:
        raise OptionError(f"{option} {name}: choose from {', '.join(legal)}")
    return name


def parse_names(option: str, value: str | None, legal: tuple[str, ...]) -> tuple[str, ...]:
    """Read a comma list of names, each of them legal; None has none.

    Returns:
        The names in the order of ``legal``.
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
