"""Base class and registry of the loss terms."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.attention.core import COMPONENTS, launches_cost
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import (
    Options,
    Registry,
    option,
    parse_names,
    read_options,
    refuse_idle,
)

Layers = dict[str, list[Tensor]]  # a value for every layer of every component
JOINED_ELEMENTS = 2**27  # largest state of all layers; larger copies would need too much memory


def weight_option(default: str, text: str) -> str:
    """Declare the weight of a term, ``NAME_weight``; a default of "0.0" switches the term off.

    Use it for the first field of a term's options. The weight multiplies the term in the mean loss
    of a token, so a term with values near 1 and a token loss of 3 nats needs a weight below 1.
    """
    return option(default, text)


def components_option(who: str) -> str | None:
    """Declare the components of a term, ``NAME_on``; without it the term acts on all of them."""
    return option(
        None,
        f"components {who} to: comma list of encoder, cross, decoder; default: all",
    )


class Term(ABC, Generic[Options]):
    """A loss term: values computed from head states, and their weight.

    Subclass it to add a loss term of your own, with options on the command line, in recipes and in
    ``HeadTerms``.

    A subclass computes the value of one layer, a mean over real positions or a sample of them. The
    log has the mean over the layers of a component, summed over the components. The names of a
    term's options begin with its name. ``NAME_weight`` is required, ``NAME_on`` is optional.
    ``Term[LengthOptions]`` tells a type checker the type of ``given``.

    Args:
        given: the term's options, an instance of ``options``.
        weight: factor of the term's values in the loss.
        components: names of components; empty for all that the model has.

    Attributes:
        name: first part of the option names.
        options: dataclass of the term's options.
        wanted: names of the head states that the term needs.
        sign: 1 = minimised, -1 = maximised.
        compares: True if heads are compared with each other; then a single head is refused.
        joinable: names of values that are means over positions, which :meth:`value` may compute
            for all layers of a component joined as one batch.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class LengthOptions:
        ...     length_weight: str = weight_option("0.0", "weight of the heads' mean length")
        >>> class Length(Term):  # decorate it with @TERMS.register to add its options
        ...     name, options, wanted = "length", LengthOptions, ("outputs",)
        ...     def value(self, name, states, shared):
        ...         return states.outputs.norm(dim=-1).mean()
        >>> term = Length.from_config(LengthOptions(length_weight="0.5"))
        >>> states = HeadStates(outputs=torch.ones(1, 2, 3, 4))  # vectors of length 2
        >>> values = term.values({"encoder": [states]}, training=True)
        >>> term.loss(values["length"], sample_size=3).item()  # 0.5 * 2
        1.0
    """

    name: ClassVar[str]
    options: ClassVar[type[Any]]  # type[Options], which a class variable cannot say
    wanted: tuple[str, ...]
    sign: int = 1
    compares: bool = True
    joinable: Collection[str] = ()
    given: Options
    weight: float
    components: tuple[str, ...]

    def __init__(self, given: Options, weight: float, components: tuple[str, ...]):
        self.given, self.weight, self.components = given, weight, components

    @abstractmethod
    def value(self, name: str, states: HeadStates, shared: Any) -> Tensor:
        """Compute a scalar of one layer.

        Args:
            name: one of ``logged``.
            states: record of the layer.
            shared: result of :meth:`shared` for the component.
        """

    def shared(self, layers: list[HeadStates], training: bool) -> Any:
        """Return what all layers of a component share, such as a sample of positions.

        Args:
            layers: the record of each layer.
            training: False in validation, where nothing may be drawn at random.
        """
        return None

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the term's values in the log."""
        return (self.name,)

    @property
    def on(self) -> bool:
        """True if the options switch the term on."""
        return self.weight > 0

    @classmethod
    def switch(cls) -> str:
        """Return the option that switches the term on."""
        return f"{cls.name}_weight"

    @classmethod
    def where(cls) -> str | None:
        """Return the option that names components, or None."""
        name = f"{cls.name}_on"
        return name if name in {f.name for f in fields(cls.options)} else None

    @property
    def option(self) -> Option:
        """The option that switches the term on, for errors."""
        return Option(self.switch())

    @classmethod
    def from_config(cls, cfg: Any) -> Self | None:
        """Read the term from the options of ``DiversityConfig``; None if the term is off.

        Raises:
            UserError: for an illegal option, or an option without effect.
        """
        given = read_options(cls.options, cfg)
        key, where = f"{cls.name}_weight", cls.where()
        weight, components = _weight(key, getattr(given, key)), ()
        if where is not None:
            components = parse_names(where, getattr(given, where), COMPONENTS)
        term = cls(given, weight, components)
        if term.on:
            return term
        why = ["without ", term.option, "; name a term"]
        if cls.switch() == key:
            why = ["with ", Option(key, 0), "; give a weight above 0"]
        refuse_idle(cfg, [f for f in fields(cls.options) if f.name != cls.switch()], *why)
        return None

    def values(self, head_states: dict[str, list[HeadStates]], training: bool) -> dict[str, Layers]:
        """Compute the term's values in every layer.

        Args:
            head_states: records per component, as the model returns them.
            training: False in validation, where nothing may be drawn at random.

        Returns:
            Logged name -> component -> a scalar for every layer.
        """
        # Layer drop may leave a component without layers.
        there = {c: head_states[c] for c in self.components or head_states if head_states[c]}
        shared = {c: self.shared(layers, training) for c, layers in there.items()}
        joined = {
            c: join_layers(layers, self.wanted) for c, layers in there.items() if self.joinable
        }

        def of_layers(name: str, component: str) -> list[Tensor]:
            layers, together = there[component], joined.get(component)
            if together is not None and name in self.joinable:
                return [self.value(name, together, shared[component])] * len(layers)
            return [self.value(name, states, shared[component]) for states in layers]

        return {name: {c: of_layers(name, c) for c in there} for name in self.logged}

    def risk(self, heads: Mapping[str, int], post_norm: Collection[str]) -> str | None:
        """Return a line for the log if trainings of such models with the term are known to fail.

        Args:
            heads: number of heads by component.
            post_norm: components whose layers are normalised after each block.
        """
        return None

    def share(self, layers: list[Tensor], sample_size: float | Tensor) -> Tensor:
        """Return a component's part of the mean loss at weight 1: the mean over its layers.

        Args:
            layers: the value of each layer.
            sample_size: divisor of the batch's loss, such as its number of target tokens.
        """
        return total(layers) / len(layers)

    def loss(self, values: Layers, sample_size: float | Tensor) -> Tensor | float:
        """Return the weighted part of the mean loss that one logged value adds; 0.0 without layers.

        Args:
            values: value of each layer of each component.
            sample_size: as for ``share``.
        """
        shares = (self.weight * self.share(layers, sample_size) for layers in values.values())
        return self.sign * sum(shares, start=0.0)


OwnTerm = TypeVar("OwnTerm", bound=type[Term[Any]])


class TermRegistry(Registry[type[Term[Any]]]):
    """Subclasses of ``Term`` by name, in order of registration."""

    def register(self, method: OwnTerm) -> OwnTerm:
        """Register and return a subclass of ``Term``; to be used as a decorator.

        Raises:
            ValueError: if the name is taken, or another term declares an option differently.
        """
        super().register(method)
        return method


TERMS = TermRegistry()
"""Registry of the loss terms, subclasses of :class:`Term` that ``@TERMS.register`` adds.

A registered term has its options in every criterion of this package and in ``HeadTerms``, and is
off until its weight is set. Terms can be combined, and leave no trace in the trained model.
"""


def _weight(option: str, value: str | float) -> float:
    try:
        weight = float(value)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise UserError(Option(option, value), ": must be 0 or a positive number")
    return weight


def total(layers: list[Tensor]) -> Tensor:
    """Sum the values of layers; the list of joined layers repeats one value."""
    first, *others = layers
    same = others and all(value is first for value in others)
    return first * len(layers) if same else sum(others, start=first)


def join_layers(layers: list[HeadStates], wanted: Collection[str]) -> HeadStates | None:
    """Join the records of a component's L layers to one record with a batch of L * B sentences.

    The mean over the real positions of the joined record equals the mean of the layers' means. On a
    GPU, joining saves the launch of many small kernels.

    Returns:
        The record, or None if shapes differ or separate records are faster.
    """
    states = {name: [getattr(layer, name) for layer in layers] for name in wanted}
    if len(layers) < 2 or not all(map(_better_joined, states.values())):
        return None
    own, of_keys = (
        None if mask is None else mask.repeat(len(layers), 1) for mask in layers[0][-2:]
    )
    if layers[0].key_padding_mask is layers[0].query_padding_mask:
        of_keys = own  # one object: terms join projections whose masks are the same object
    masks = {"query_padding_mask": own, "key_padding_mask": of_keys}
    return HeadStates(**{name: torch.cat(each) for name, each in states.items()}, **masks)


def _better_joined(states: list[Tensor]) -> bool:
    small = sum(state.numel() for state in states) <= JOINED_ELEMENTS
    same_shape = len({state.shape for state in states}) == 1
    return same_shape and small and launches_cost(states[0].device)
