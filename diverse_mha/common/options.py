"""Options and registries of methods.

A method is one file: its code, a plain dataclass of ``option(...)`` fields, and a call of
``register``. Choices, help texts, checks and the options of models and criterions are generated
from it; ``diverse_mha.common.typed`` converts the options for fairseq's parsers.
"""

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.ranges import Range

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Default = TypeVar("Default")
Options = TypeVar("Options", bound="DataclassInstance")  # of a method
Built = TypeVar("Built", covariant=True)  # module that a method builds
Part = TypeVar("Part")  # module that all methods of a seam build

#: fairseq's options of speed, memory, paths and logging, with which a run may go on changed.
ANYWHERE = frozenset(
    (
        "log_interval log_format log_file no_progress_bar user_dir aim_repo tensorboard_logdir "
        "wandb_project azureml_logging plasma_path num_workers data_buffer_size max_tokens_valid "
        "batch_size_valid save_dir restore_file finetune_from_model continue_once reset_dataloader "
        "reset_lr_scheduler reset_meters reset_optimizer optimizer_overrides tpu cpu "
        "suppress_crashes allow_other_dictionary"
    ).split()
)


def flag(name: str) -> str:
    """Return an option's command-line form: ``logits_on`` becomes ``--logits-on``."""
    return "--" + name.replace("_", "-")


def check_option(legal: Range, name: str, value: Any) -> None:
    """Raise UserError for an option outside its range; ``name`` has underscores."""
    if not legal.legal(value):
        raise UserError(Option(name, value), f": must be {legal.words}")


def option(
    default: Default,
    text: str,
    *,
    choices: tuple[str, ...] = (),
    legal: Range | None = None,
) -> Default:
    """Declare an option, a field of a dataclass.

    Use it for every option of a method: help texts, legal values and the conversion to fairseq's
    parsers follow from it.

    Args:
        default: default value.
        text: help text.
        choices: legal values; empty allows any value of the field's type.
        legal: legal range; None is always legal.

    Example:
        >>> from diverse_mha.common.ranges import POSITIVE
        >>> @dataclass
        ... class ScaledOptions:
        ...     scaled_start: float = option(1.0, "initial scale of the heads", legal=POSITIVE)
        >>> ScaledOptions().scaled_start
        1.0
    """
    return _field(default, text, choices, legal)


def _field(default: Any, text: str, choices: tuple[str, ...], legal: Range | None = None) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices, "range": legal})


def read_options(kind: type[Options], cfg: Any) -> Options:
    """Return an instance of the dataclass ``kind`` with values from ``cfg``, or else defaults.

    Raises:
        UserError: for an illegal value.
    """
    values = {}
    for f in fields(kind):
        value = getattr(cfg, f.name, f.default)
        if f.metadata["choices"]:
            value = check_name(f.name, str(value), f.metadata["choices"])
        elif f.metadata["range"] and value is not None:
            check_option(f.metadata["range"], f.name, value)
        values[f.name] = value
    return kind(**values)


def refuse_idle(cfg: Any, options: Iterable[Field[Any]], *why: str | Option) -> None:
    """Raise an error if any of ``options``, which have no effect, differs from its default.

    In the message ``why`` follows "has no effect"; it may be several parts of it.
    """
    for f in options:
        value = getattr(cfg, f.name, f.default)
        if _plain(value) != _plain(f.default):
            raise UserError(Option(f.name, value), " has no effect ", *why)


def _plain(value: Any) -> bool | float | str:
    """Return a comparable value: 1, 1.0 and "1.0" are the same."""
    try:
        return value if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return str(value)


def same_value(one: Any, other: Any) -> bool:
    """Return True if two values are equal up to their form: "1" and 1.0, "1,2" and "1, 2"."""
    first, second = (list(map(_plain, split_list(str(value)))) for value in (one, other))
    return one == other or first == second


def split_list(text: str) -> list[str]:
    """Split a list at its commas and strip the parts."""
    return [word.strip() for word in text.split(",")]


def check_name(option: str, name: str, legal: Iterable[str]) -> str:
    """Return ``name``, or raise UserError if it is not a legal value of the option."""
    if name not in legal:
        raise UserError(Option(option, name), f": choose from {', '.join(legal)}")
    return name


def parse_names(option: str, value: str | None, legal: tuple[str, ...]) -> tuple[str, ...]:
    """Parse an option's comma-separated list; return its names in the order of ``legal``.

    None gives ().

    Raises:
        UserError: for an unknown or repeated name.
    """
    if value is None:
        return ()
    names = split_list(value)
    for name in names:
        if name not in legal:
            cure = f"choose from {', '.join(legal)}"
            raise UserError(Option(option, value), f": unknown {name!r}; {cure}")
        if names.count(name) > 1:
            raise UserError(Option(option, value), f": {name!r} is given twice; name it once")
    return tuple(name for name in legal if name in names)


def parse_layers(
    option: str, value: str, words: tuple[str, ...], count: int | None = None
) -> str | tuple[int, ...]:
    """Parse an option's layers: one of ``words``, such as ``all``, or numbers from 1 to ``count``.

    Raises:
        UserError: for anything else.
    """
    if value in words:
        return value
    numbers = split_list(value)
    for number in numbers:
        if not number.isdecimal() or not 1 <= int(number) <= (count or math.inf):
            most = f" to {count}" if count else ""
            raise UserError(
                Option(option, value),
                f": there is no layer {number!r}; give numbers from 1{most} separated by commas, "
                f"or {' or '.join(words)}",
            )
    return tuple(sorted({int(number) for number in numbers}))


@dataclass
class NoOptions:
    """Options dataclass of a method without options, the default of :class:`Method`."""


def _no_options() -> Any:
    """Return the default of ``Method.options``, whose type is that of a method with options."""
    return NoOptions


class Place(NamedTuple):
    """The position of a module in a model.

    Attributes:
        component: ``encoder``, ``cross`` or ``decoder``.
        side: the stack that contains the module, ``encoder`` or ``decoder``.
        number: layer number, from 1.
        embed_dim: embedding dimension of the stack (C).
        num_heads: number of attention heads (H).
        activation_dropout: value of fairseq's option.
    """

    component: str
    side: str
    number: int
    embed_dim: int
    num_heads: int
    activation_dropout: float = 0.0


def _nothing_to_check(options: Any, place: Place) -> None:
    """Default check: accept the options in every place."""


@dataclass(frozen=True)
class Method(Generic[Options, Built]):
    """A method of a seam.

    Make one to add a method to ``PROJECTIONS``, ``LOGITS``, ``AGGREGATION`` or ``DROPHEAD``:
    register it, and ``--aggregation NAME`` (or the option of the other seam) selects it in every
    model.

    Attributes:
        name: value of the seam's option.
        help: name in the option's help text, such as "em-routing (Li et al. 2021)".
        build: returns the module for an instance of ``options`` and a ``Place``, or None if
            attention needs no module. Must be a top-level function, so that models pickle.
        options: dataclass of the method's options.
        check: raises ``UserError`` for options that do not fit a ``Place``; called for each
            component with this method before anything is built.
        stock: True if a trained model computes the same as a stock fairseq model.
        carries: True if a layer's logits, or layer 1's values, go to the next layer.
        fold: changes a dictionary of an attention module's parameters, in place, into those of a
            stock module that computes the same; None if no stock module does.
        head_axes: parameter name -> dimension of the heads, so that heads can be removed; None if
            heads depend on each other.
    """

    name: str
    help: str
    build: Callable[[Options, Place], Built | None]
    options: type[Options] = _no_options()
    check: Callable[[Options, Place], None] = _nothing_to_check
    stock: bool = False
    carries: bool = False
    fold: Callable[[dict], None] | None = None
    head_axes: Mapping[str, int] | None = None


class Registered(Protocol):
    """What a registry asks of a method, which is an object or a class."""

    @property
    def name(self) -> str:
        """The name, by which it is found."""
        ...

    @property
    def options(self) -> "type[DataclassInstance]":
        """The dataclass of its options."""
        ...


Entry = TypeVar("Entry", bound=Registered)


class Registry(Generic[Entry]):
    """Methods by name, in order of registration.

    ``TERMS`` is one. Look into it to see which methods exist and which options they add, and add
    yours with :meth:`register`.

    Example:
        >>> from diverse_mha.methods.term import TERMS
        >>> import diverse_mha.methods.hsic
        >>> "hsic" in TERMS.names
        True
        >>> "hsic_weight" in [field.name for field in TERMS.options()]
        True
    """

    def __init__(self) -> None:
        self._methods: dict[str, Entry] = {}
        self._listeners: list[Callable[[], None]] = []

    def register(self, method: Entry) -> Entry:
        """Register and return a method.

        Raises:
            ValueError: if the name is taken, or another method declares an option differently.
        """
        if method.name in self._methods:
            raise ValueError(f"{method.name!r} is registered already")
        known = {f.name: f for f in self.options()}
        for f in fields(method.options):
            if f.name in known and _declared(f) != _declared(known[f.name]):
                raise ValueError(
                    f"{method.name!r}: another method declares {flag(f.name)} differently"
                )
        self._methods[method.name] = method
        for listener in self._listeners:
            listener()
        return method

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every registration."""
        self._listeners.append(listener)

    def options(self) -> list[Field[Any]]:
        """Return the options of all methods, without duplicates."""
        return _once(f for method in self for f in fields(method.options))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._methods.values())

    def __getitem__(self, name: str) -> Entry:
        return self._methods[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(self._methods)


class Selection(NamedTuple, Generic[Built]):
    """The selected method of a seam, and its options."""

    method: Method[Any, Built]
    options: Any


class Seam(Registry[Method[Any, Part]], Generic[Part]):
    """Registry of a replaceable part of attention; an option selects the method.

    ``PROJECTIONS``, ``LOGITS``, ``AGGREGATION`` and ``DROPHEAD`` are seams. Use :meth:`read` to get
    the method that a configuration selects, with its options.

    Args:
        name: name of the option, with underscores.
        default: the default method.
        about: beginning of the option's help text; the methods' names follow.
        options: dataclass of further options of the seam, such as the layers.

    Example:
        >>> from types import SimpleNamespace
        >>> def build_nothing(options, place): ...
        >>> seam = Seam("pooling", "mean", "how positions are merged")
        >>> for name in ("mean", "max"):
        ...     method = seam.register(Method(name, name, build_nothing))
        >>> seam.read(SimpleNamespace(pooling="max")).method.name
        'max'
    """

    name: str
    default: str
    about: str

    def __init__(
        self, name: str, default: str, about: str, options: "type[DataclassInstance]" = NoOptions
    ) -> None:
        super().__init__()
        self.name, self.default, self.about, self._own = name, default, about, options

    def register(self, method: Method[Options, Part]) -> Method[Options, Part]:
        """Register and return a method, whose builder takes an instance of its options.

        Raises:
            ValueError: if the name is taken, or another method declares an option differently.
        """
        super().register(method)
        return method

    def options(self) -> list[Field[Any]]:
        """Return the selecting option, then the options of the seam and of its methods."""
        *most, last = [method.help for method in self] or [""]
        listed = f"{', '.join(most)} or {last}" if most else last
        choice = _field(self.default, f"{self.about}: {listed}", self.names)
        choice.name, choice.type = self.name, str
        return _once([choice, *fields(self._own), *super().options()])

    def read(self, cfg: Any) -> Selection[Part]:
        """Return the selected method and its options.

        Raises:
            UserError: for an unknown name, an illegal value or an option without effect.
        """
        name = str(getattr(cfg, self.name, self.default))
        chosen = self[check_name(self.name, name, self.names)]
        own = {f.name for f in fields(chosen.options)}
        for f in super().options():
            if f.name not in own:
                others = [m.name for m in self if f.name in {g.name for g in fields(m.options)}]
                # To reset an option that the architecture has set, the user gives its default.
                cure = f"; use it with {' or '.join(others)}, or reset it to {f.default}"
                refuse_idle(cfg, [f], "with ", Option(self.name, name), cure)
        return Selection(chosen, read_options(chosen.options, cfg))


def _declared(option: Field[Any]) -> tuple[Any, Mapping[Any, Any]]:
    return option.default, option.metadata


def _once(options: Iterable[Field[Any]]) -> list[Field[Any]]:
    return list({f.name: f for f in options}.values())


def import_siblings(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that its methods are registered."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
