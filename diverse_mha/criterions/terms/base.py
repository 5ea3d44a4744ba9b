"""What the methods that add to the loss have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import OptionError
from diverse_mha.criterions.weights import Weights

Layers = dict[str, list[Tensor]]
"""A value for every layer of every component."""


class Term(ABC):
    """One method: values computed from the head states, and their weight in the loss.

    The value of a layer is a mean over real positions (or, HSIC, one of samples of them). What
    is logged is the mean over the layers of a component, summed over the components.

    Attributes:
        option: the option that switches it on, for messages.
        wanted: names of the head states it needs.
        weights: what its values are multiplied by in the loss.
        sign: 1 = minimised, -1 = maximised.
        on_option: the option that names the components, for messages.
        components: the names, or none for all that the model has.
    """

    option: str
    wanted: tuple[str, ...]
    weights: Weights
    sign: int = 1
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
    def values(self, head_states: dict[str, list[HeadStates]], training: bool) -> dict[str, Layers]:
        """Compute the values.

        Args:
            head_states: records per component, as the model returns them.
            training: False in validation, where nothing may be drawn at random.

        Returns:
            Under each name it is logged by a scalar for every layer of every component.

        Raises:
            OptionError: if a named component is not part of the model.
        """

    def share(self, layers: list[Tensor], sample_size: float) -> Tensor:
        """Return what a component adds to the mean loss at weight 1: the mean of its layers.

        Args:
            layers: a value for each.
            sample_size: what the loss of the batch is divided by, such as its target tokens.
        """
        return sum(layers) / len(layers)

    def loss(self, values: Layers, sample_size: float) -> Tensor:
        """Return what one of the values adds to the mean loss, weighed.

        Args:
            values: of each layer of each component.
            sample_size: as for ``share``.
        """
        shares = (
            self.weights.of(component) * self.share(layers, sample_size)
            for component, layers in values.items()
        )
        return self.sign * sum(shares)


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


def by_component(
    option: str,
    components: tuple[str, ...],
    head_states: dict[str, list[HeadStates]],
    of_component: Callable[[list[HeadStates]], list[Tensor]],
) -> Layers:
    """Compute a value for the layers of each component.

    Args:
        option: spelling of the option that names the components, for the message.
        components: the names, or none for all that the model has.
        head_states: records per component.
        of_component: gives a component's values, one a layer.

    Raises:
        OptionError: if a named component is not part of the model.
    """
    check_components(option, components, head_states)
    # Layer drop may have left a component without layers in this pass.
    return {
        name: of_component(head_states[name])
        for name in components or head_states
        if head_states[name]
    }


def mean_of_layers(values: Layers) -> Tensor | float:
    """Mean over the layers of each component, summed over the components."""
    return sum(sum(layers) / len(layers) for layers in values.values())
