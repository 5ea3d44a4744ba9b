"""Dataclasses of options for fairseq's parsers, generated from declared options."""

from collections.abc import Iterable
from dataclasses import Field, field, fields, make_dataclass
from types import UnionType
from typing import Union

from fairseq.dataclass import ChoiceEnum
from hydra.core.config_store import ConfigStore

from diverse_mha.common.config_store import LazyNode


def _type(option: Field):
    if option.metadata["choices"]:
        return ChoiceEnum(option.metadata["choices"])
    if isinstance(option.type, UnionType):
        return Union[option.type.__args__]  # noqa: UP007  fairseq's parser knows no X | None
    return option.type


def with_options(config: type, options: Iterable[Field], name: str = "") -> type:
    """Derive a dataclass from ``config`` that also has ``options``.

    An option that ``config`` has already keeps its default, and gets the new choices. Choices
    become fairseq's enumerations.
    """
    defaults = {f.name: f.default for f in fields(config)}
    rows = []
    for f in options:
        metadata = {"help": f.metadata["help"]}
        default = defaults.get(f.name, f.default)
        rows.append((f.name, _type(f), field(default=default, metadata=metadata)))
    space = {"__module__": config.__module__, "__doc__": config.__doc__}
    return make_dataclass(name or config.__name__, rows, bases=(config,), namespace=space)


def register_options(group: str, registry: dict[str, type], name: str, cls: type, config: type):
    """Set or replace the options dataclass ``config`` of a class registered with fairseq."""
    cls.__dataclass = registry[name] = config
    node = LazyNode(f"{name}.yaml", group, lambda: config(_name=name))
    ConfigStore.instance().repo.setdefault(group, {})[node.name] = node
