"""An option without the criterion, architecture or task that has it.

fairseq prints its usage, a hundred lines, and "unrecognized arguments" (fairseq-fixed 0.12.3.1).
"""

import difflib
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

from fairseq import options
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(options, "parse_args_and_arch")
def say_what_has_an_option(parse, parser, input_args=None, *args, **kwargs):
    """Name what has an option that the chosen criterion, architecture and task have not."""
    words, error = sys.argv[1:] if input_args is None else input_args, parser.error

    def explained(message: str) -> None:
        if "unrecognized arguments" in message:
            for option in _options(message.split()):
                explain(option, words, parser.get_default)
        error(message)

    parser.error = explained
    return parse(parser, input_args, *args, **kwargs)


def explain(option: str, words: Sequence[str], default=lambda name: None) -> None:
    """Refuse an option if something that was not chosen has it."""
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
    """List up to three of a ``choice``, such as ``--criterion``, that have an option.

    They are those that are spelt like what was chosen.
    """
    registry = _registries()[choice]
    there = [one for one in registry if name in getattr(registry[one], "__dataclass_fields__", {})]
    ours = [one for one in there if not registry[one].__module__.startswith("fairseq.")] or there
    alike = [one for one in ours if ("_lm" in one) == ("_lm" in chosen)] or ours
    return difflib.get_close_matches(chosen, alike, 3) or alike[:1]


def _registries() -> dict[str, dict]:
    """Dataclasses by name, by the option that chooses one."""
    others = {flag(name): entry["dataclass_registry"] for name, entry in REGISTRIES.items()}
    return {
        "--criterion": others.pop("--criterion"),
        "--arch": MODEL_DATACLASS_REGISTRY,
        "--task": TASK_DATACLASS_REGISTRY,
        **others,
    }


def _options(words: Sequence[str]) -> Iterator[str]:
    return (word.partition("=")[0] for word in words if word.startswith("--") and word[2:])


def _value(words: Sequence[str], option: str) -> str | None:
    """What an option is given, the last time."""
    value = None
    for word, following in pairwise([*map(str, words), ""]):
        name, equals, behind = word.partition("=")
        if name in (option, "-a" if option == "--arch" else option):
            value = behind if equals else None if following.startswith("--") else following
    return value
