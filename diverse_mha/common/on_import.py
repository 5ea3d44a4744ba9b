"""Import callback: calls a function after another package has been imported."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec


def after_import(
    name: str,
    then: Callable[[], None],
    within: Callable[[], AbstractContextManager] = nullcontext,
) -> None:
    """Call ``then`` after the package ``name`` is imported; if it is imported already, call now.

    ``within`` returns a context manager, which is entered for the import. ``then`` is not called if
    a module of ``then``'s package imports ``name`` first, because that module is incomplete.
    """
    if sys.modules.get(name) is None:
        sys.meta_path.insert(0, _Finder(name, then, within))
    else:
        then()


def cancel(name: str) -> None:
    """Remove the callbacks for the import of ``name``."""
    sys.meta_path[:] = [x for x in sys.meta_path if getattr(x, "awaited", "") != name]


class _Finder:
    """Meta path finder for ``name``: delegates to other finders, calls ``then`` after loading."""

    def __init__(self, name: str, then: Callable[[], None], within: Callable):
        self.awaited, self.then, self.within = name, then, within

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        if name != self.awaited:
            return None
        others = [x for x in sys.meta_path if x is not self and hasattr(x, "find_spec")]
        spec = next(filter(None, (x.find_spec(name, path, target) for x in others)), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_call(module) -> None:
                with self.within():
                    load(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    if not _starting(self.then.__module__):
                        self.then()

            spec.loader.exec_module = load_and_call
        return spec


def _starting(package: str) -> bool:
    """Return True while a module of the package is being imported."""
    specs = (
        module.__spec__ for name, module in [*sys.modules.items()] if name.startswith(f"{package}.")
    )
    return any(getattr(spec, "_initializing", False) for spec in specs)
