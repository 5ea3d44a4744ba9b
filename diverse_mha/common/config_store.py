"""Entries of Hydra's configuration store that are built when they are read.

fairseq stores the options of every architecture, task and criterion, of which a run reads none or
one. Building a hundred entries takes 0.2 s.
"""

from collections.abc import Callable
from typing import Any

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import DictConfig, OmegaConf

_NOT_BUILT = DictConfig({})


class LazyNode(ConfigNode):
    """Entry of the store; ``build`` returns the structured config when the entry is read."""

    def __init__(self, name: str, group: str | None, build: Callable[[], Any], **more):
        super().__init__(name, _NOT_BUILT, group, **{"package": None, "provider": "fairseq"} | more)
        del self.node
        self.build = build

    def __getattr__(self, name: str) -> Any:
        """Build ``node``, the defaults of the dataclass, as fairseq stores them."""
        if name != "node" or "build" not in self.__dict__:
            raise AttributeError(name)
        self.node = OmegaConf.structured(self.build())
        return self.node


def store_lazily(
    store: ConfigStore,
    name: str,
    node: Any,
    group: str | None = None,
    package: str | None = None,
    provider: str | None = None,
) -> None:
    """Store an entry like ``ConfigStore.store``, whose place it takes, but as a LazyNode."""
    folder = store.repo
    for part in group.split("/") if group is not None else ():
        folder = folder.setdefault(part, {})
    name = name if name.endswith(".yaml") else f"{name}.yaml"
    folder[name] = LazyNode(name, group, lambda: node, package=package, provider=provider)
