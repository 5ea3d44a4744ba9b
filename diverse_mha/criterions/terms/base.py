"""What the methods that add to the loss have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.errors import OptionError


class Term(ABC):
    """One method: values computed from the head states, and their weight in the loss.

    A value is the mean over the layers of a component, summed over the components,
    each layer's value being a mean over real positions (or, HSIC, one of samples of them).

    Attributes:
        option: the option that switches it on, for messages.
        names: what its values are logged as.
        wanted: names of the head states it needs.
        weight: what its values are multiplied by in the loss: below 0 = maximised.
        on_option: the option that names the components, for messages.
        components: the names, or none for all that the model has.
    """

    option: str
    names: tuple[str, ...]
    wanted: tuple[str, ...]
    weight: float
    on_option: str = ""
    components: tuple[str, ...] = ()

    @classmethod
    @abstractmethod
    def from_config(cls, cfg) -> "Term | None":
        """Read the method off the options of ``DiversityConfig``; None if it is off.

        Raises:
            OptionError: for an option that is impossible or has no effect.
        """

    @abstractmethod
    def values(self, head_states: dict[str, list[HeadStates]], training: bool) -> dict[str, Tensor]:
        """Compute the values.

        Args:
            head_states: records per component, as the model returns them.
            training: False in validation, where nothing may be drawn at random.

        Returns:
            A scalar under each of ``names``.

        Raises:
            OptionError: if a named component is not part of the model.
        """


def check_components(option: str, components: tuple[str, ...], there: Collection[str]) -> None:
    """Refuse components that the model does not have.

    Args:
        option: spelling of the option that names the components, for the message.
        components: the names.
        there: those of the model.

    Raises:
        OptionError: naming the first that is not there.
    """
    for name in components:
        if name not in there:
            raise OptionError(
                f"{option} {','.join(components)}: the model has no {name!r} attention; "
                f"choose from {', '.join(there)}"
            )


def sum_over_components(
    option: str,
    components: tuple[str, ...],
    head_states: dict[str, list[HeadStates]],
    of_component: Callable[[list[HeadStates]], list[Tensor]],
) -> Tensor:
    """Mean over the layers of each component, summed over the components.

    Args:
        option: spelling of the option that names the components, for the message.
        components: the names, or none for all that the model has.
        head_states: records per component.
        of_component: gives a component's values, one a layer.

    Raises:
        OptionError: if a named component is not part of the model.
    """
    check_components(option, components, head_states)
    total = 0.0
    for name in components or head_states:
        layers = head_states[name]
        if layers:  # layer drop may have left none in this pass
            total = total + sum(of_component(layers)) / len(layers)
    return total
