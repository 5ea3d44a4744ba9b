"""Methods by name: what makes a seam open.

A method is added in one file: its code, a dataclass of its options, and a call of ``register``.
Everything else (choices, help texts, checks, the options of models and criterions) follows.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, fields
from typing import Any, NamedTuple

from diverse_mha.common.options import check_name, flag, option, read_options, refuse_idle


@dataclass
class NoOptions:
    """The options of a method that has none."""


class Place(NamedTuple):
    """Where in a model a module is to sit, for the one who builds it.

    Attributes:
        component: ``encoder``, ``cross`` or ``decoder``.
        side: whose width and heads it has, ``encoder`` or ``decoder``.
        number: of the layer, from 1.
        embed_dim: C, the width.
        num_heads: H.
        activation_dropout: fairseq's option.
    """

    component: str
    side: str
    number: int
    embed_dim: int
    num_heads: int
    activation_dropout: float = 0.0


def _nothing_to_check(options: Any, place: Place) -> None:
    """Ranges and choices are all there is to say of the options."""


@dataclass(frozen=True)
class Method:
    """One method of a seam.

    Attributes:
        name: what selects it.
        help: how the option's help names it, such as "em-routing (Li et al. 2021)".
        build: from an instance of ``options`` and a ``Place`` to the module, or to None where
            attention needs none; a function of its file, so that models can be pickled.
        options: dataclass of its options.
        check: refuses options, by an ``OptionError``, that do not go with a place; called for
            every component before anything is built.
        stock: whether a trained model computes as stock fairseq's does.
        carries: logits only: whether a layer's logits go to the next layer.
    """

    name: str
    help: str
    build: Callable[[Any, Place], Any]
    options: type = NoOptions
    check: Callable[[Any, Place], None] = _nothing_to_check
    stock: bool = False
    carries: bool = False


class Registry:
    """Methods by name, in the order in which they were registered."""

    def __init__(self):
        self._methods: dict[str, Any] = {}
        self._listeners: list[Callable[[], None]] = []

    def register(self, method: Any) -> Any:
        """Add a method, which has a ``name`` and ``options``; returns it, so it can decorate.

        Raises:
            ValueError: if the name is taken, or one of its options is another method's.
        """
        if method.name in self._methods:
            raise ValueError(f"{method.name!r} is registered already")
        known = {f.name: f for f in self.options()}
        for f in fields(method.options):
            if f.name in known and f.metadata != known[f.name].metadata:
                raise ValueError(f"{method.name!r}: {flag(f.name)} is an option already")
        self._methods[method.name] = method
        for listener in self._listeners:
            listener()
        return method

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a method is added."""
        self._listeners.append(listener)

    def options(self) -> list[Field]:
        """The options of all methods, each once."""
        return _once(f for method in self for f in fields(method.options))

    def __iter__(self):
        return iter(self._methods.values())

    def __getitem__(self, name: str):
        return self._methods[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(self._methods)


class Chosen(NamedTuple):
    """The method that the options choose, and its options."""

    method: Method
    options: Any


class Seam(Registry):
    """A replaceable part of attention: an option that names the method, and the methods.

    Args:
        name: the option, with underscores.
        default: the method without it.
        about: its help, up to the names.
        options: dataclass of the options that belong to no method, such as the layers.
    """

    def __init__(self, name: str, default: str, about: str, options: type = NoOptions):
        super().__init__()
        self.name, self.default, self.about, self._own = name, default, about, options

    def options(self) -> list[Field]:
        """The option that chooses, those of the seam and those of its methods."""
        *most, last = [method.help for method in self] or [""]
        listed = f"{', '.join(most)} or {last}" if most else last
        choice = option(self.default, f"{self.about}: {listed}", choices=self.names)
        choice.name, choice.type = self.name, str
        return _once([choice, *fields(self._own), *super().options()])

    def read(self, cfg: Any) -> Chosen:
        """Read the method and its options.

        Raises:
            OptionError: for an unknown name, a value out of range, or an option that has no
                effect with the method.
        """
        name = str(getattr(cfg, self.name, self.default))
        chosen = self[check_name(flag(self.name), name, self.names)]
        own = {f.name for f in fields(chosen.options)}
        for f in super().options():
            if f.name not in own:
                others = [m.name for m in self if f.name in {g.name for g in fields(m.options)}]
                # It may be the architecture's, which --attention-noise 0.0 takes out again.
                why = f"with {flag(self.name)} {name}; it goes with {' or '.join(others)}, and "
                why += f"with any method if it is {f.default}"
                refuse_idle(cfg, [f], why)
        return Chosen(chosen, read_options(chosen.options, cfg))


def _once(options: Iterable[Field]) -> list[Field]:
    return list({f.name: f for f in options}.values())


def import_siblings(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that a file in its folder is enough to register."""
    for found in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{found.name}")
