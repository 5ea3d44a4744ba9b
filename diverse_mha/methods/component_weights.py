"""Weights of a term in the components of a model."""

from dataclasses import dataclass, field

from diverse_mha.attention.states import COMPONENTS
from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import parse_names, split_list


@dataclass(frozen=True)
class Weights:
    """The weight of a term: one number, or one for each component it applies to.

    Attributes:
        number: weight of every component, unless they have their own.
        by_component: weights by component, or empty.
    """

    number: float = 0.0
    by_component: dict[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, option: str, value: str | float) -> "Weights":
        """Read ``1.0``, or ``encoder=1.0,cross=0.5``.

        Raises:
            OptionError: for anything else, and illegal weights or components.
        """
        words = split_list(str(value))
        if "=" not in words[0]:
            return cls(_number(option, value, str(value)))
        pairs = [word.partition("=") for word in words]
        names = parse_names(option, ",".join(name for name, _, _ in pairs), COMPONENTS)
        numbers = {
            name.strip(): _number(option, value, number, word)
            for word, (name, _, number) in zip(words, pairs, strict=True)
        }
        return cls(by_component={name: numbers[name] for name in names})

    def of(self, component: str) -> float:
        """Return the weight of a component."""
        return self.by_component[component] if self.by_component else self.number

    def __bool__(self) -> bool:
        """Return False if every weight is 0."""
        return any(self.by_component.values()) or self.number > 0

    def components(self, option: str, on_option: str, on: str | None) -> tuple[str, ...]:
        """Return the components a term applies to, or none for all that the model has.

        ``on`` is the value of ``on_option``, ``option`` gave the weights.

        Raises:
            OptionError: for an illegal name, or if both options name components.
        """
        named = parse_names(on_option, on, COMPONENTS)
        if named and self.by_component:
            raise OptionError(
                f"{on_option} {on}: {option} names the components already; leave one out"
            )
        return named or tuple(self.by_component)


def _number(option: str, value: str | float, number: str, word: str | None = None) -> float:
    try:
        weight = float(number)
    except ValueError:
        raise OptionError(
            f"{option} {value}: {word or number!r} is not a weight; give one for all "
            "components, or component=number pairs separated by commas"
        ) from None
    if not 0 <= weight < float("inf"):
        raise OptionError(f"{option} {value}: must be 0 or a positive number")
    return weight
