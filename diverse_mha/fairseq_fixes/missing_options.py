"""Names the criterion, architecture or task that has an option which the chosen one lacks.

fairseq-fixed 0.12.3.1 prints a hundred lines of usage and "unrecognized arguments".
"""

import difflib
import sys
from collections.abc import Sequence
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
