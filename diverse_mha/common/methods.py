"""Registries of methods.

One file adds a method: its code, a dataclass of its options and a call of ``register``. Choices,
help texts, checks and the options of models and criterions follow from that.
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
    """Where in a model a module is built.

    Attributes:
        component: ``encoder``, ``cross`` or ``decoder``.
        side: the stack whose width and heads it has, ``encoder`` or ``decoder``.
        number: layer number, from 1.
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
    """Used by methods whose options go with every place."""


@dataclass(frozen=True)
class Method:
    """A method of a seam.

    Attributes:
        name: value of the seam's option.
        help: its name in that option's help, such as "em-routing (Li et al. 2021)".
        build: returns the module for an instance of ``options`` and a ``Place``, or None if
            attention needs none. A function at the top of its file, so that models pickle.
        options: dataclass of its options.
        check: raises ``OptionError`` for options that do not fit a ``Place``; called for every
            component before anything is built.
        stock: True if a trained model computes what stock fairseq does.
        carries: for logits, True if a layer's logits go to the next layer.
    """

    name: str
    help: str
    build: Callable[[Any, Place], Any]
    options: type = NoOptions
    check: Callable[[Any, Place], None] = _nothing_to_check
    stock: bool = False
    carries: bool = False


class Registry:
    """Methods by name, in order of registration."""

    def __init__(self):
        self._methods: dict[str, Any] = {}
        self._listeners: list[Callable[[], None]] = []

    def register(self, method: Any) -> Any:
        """Add a method with a ``name`` and ``options``, and return it, as a decorator does.

        Raises:
            ValueError: if the name, or an option with another declaration, is taken.
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
        """Call ``listener`` after every registration."""
        self._listeners.append(listener)

    def options(self) -> list[Field]:
        """Return the options of all methods, each once."""
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
    """A chosen method and its options."""

    method: Method
    options: Any


class Seam(Registry):
    """A replaceable part of attention, chosen by an option.

    Args:
        name: the option, with underscores.
        default: the default method.
        about: the option's help; the methods' names follow it.
        options: dataclass of further options of the seam, such as the layers.
    """

    def __init__(self, name: str, default: str, about: str, options: type = NoOptions):
        super().__init__()
        self.name, self.default, self.about, self._own = name, default, about, options

    def options(self) -> list[Field]:
        """Return the choosing option, then the seam's and its methods' options."""
        *most, last = [method.help for method in self] or [""]
        listed = f"{', '.join(most)} or {last}" if most else last
        choice = option(self.default, f"{self.about}: {listed}", choices=self.names)
        choice.name, choice.type = self.name, str
        return _once([choice, *fields(self._own), *super().options()])

    def read(self, cfg: Any) -> Chosen:
        """Return the chosen method and its options.

        Raises:
            OptionError: for an unknown name, an illegal value or an option without effect.
        """
        name = str(getattr(cfg, self.name, self.default))
        chosen = self[check_name(flag(self.name), name, self.names)]
        own = {f.name for f in fields(chosen.options)}
        for f in super().options():
            if f.name not in own:
                others = [m.name for m in self if f.name in {g.name for g in fields(m.options)}]
                # The architecture may have set it; giving the default takes it out again.
                why = f"with {flag(self.name)} {name}; it goes with {' or '.join(others)}, and "
                why += f"with any method if it is {f.default}"
                refuse_idle(cfg, [f], why)
        return Chosen(chosen, read_options(chosen.options, cfg))


def _once(options: Iterable[Field]) -> list[Field]:
    return list({f.name: f for f in options}.values())


def import_siblings(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that its files register themselves."""
    for found in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{found.name}")
