"""Options of the criterions: what the loss asks of the heads."""

from dataclasses import dataclass, field
from typing import Optional

from diverse_mha.errors import OptionError

COMPONENTS = ("encoder", "cross", "decoder")
DISAGREEMENT_TERMS = ("subspace", "position", "output")


@dataclass
class DiversityConfig:
    """Terms, components and weights; mixed into the configuration of every criterion."""

    disagreement: Optional[str] = field(
        default=None,
        metadata={
            "help": "disagreement terms to maximise (Li et al. 2018), separated by commas: "
            "subspace, position, output; default: none"
        },
    )
    disagreement_on: Optional[str] = field(
        default=None,
        metadata={
            "help": "components the terms apply to, separated by commas: encoder, cross, "
            "decoder; default: every one the model has"
        },
    )
    disagreement_weight: float = field(
        default=1.0,
        metadata={
            "help": "weight of each disagreement term, lambda in the paper; 0 logs the terms "
            "without training on them"
        },
    )


def parse_names(option: str, value: Optional[str], legal: tuple[str, ...]) -> tuple[str, ...]:
    """Read a comma list of names.

    Args:
        option: spelling of the option, for the message.
        value: the list, or None for no names.
        legal: the names there are.

    Returns:
        The names in the order of ``legal``.

    Raises:
        OptionError: for an unknown or repeated name.
    """
    if value is None:
        return ()
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in legal:
            raise OptionError(f"{option} {value}: unknown {name!r}; choose from {', '.join(legal)}")
        if names.count(name) > 1:
            raise OptionError(f"{option} {value}: {name!r} is given twice; name it once")
    return tuple(name for name in legal if name in names)


def check_weight(option: str, value: float) -> float:
    """Return a weight.

    Raises:
        OptionError: if it is negative, infinite or not a number.
    """
    if not 0 <= value < float("inf"):
        raise OptionError(f"{option} {value}: must be 0 or a positive number")
    return value
