"""Dataclasses of options for fairseq's parsers, generated from declared options."""

from collections.abc import Iterable
from dataclasses import Field, field, fields, make_dataclass
from functools import cached_property
from types import UnionType
from typing import Union

from fairseq.dataclass import ChoiceEnum
from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import OmegaConf


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


class LazyNode(ConfigNode):
    """Entry of Hydra's store, built only when read: a run reads one of about a hundred entries."""

    def __init__(self, name: str, group: str, config: type):
        super().__init__(f"{name}.yaml", None, group, package=None, provider="fairseq")
        self.__dict__.pop("node")
        self.config = config

    @cached_property
    def node(self):
        """Return the defaults of the dataclass, as fairseq stores them."""
        return OmegaConf.structured(self.config(_name=self.name.removesuffix(".yaml")))


def register_options(group: str, registry: dict[str, type], name: str, cls: type, config: type):
    """Set or replace the options dataclass ``config`` of a class registered with fairseq."""
    cls.__dataclass = registry[name] = config
    node = LazyNode(name, group, config)
    ConfigStore.instance().repo.setdefault(group, {})[node.name] = node
