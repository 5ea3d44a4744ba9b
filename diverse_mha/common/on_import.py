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

    ``within`` returns a context manager, which is entered for the import. If modules of ``then``'s
    package are being imported, ``then`` waits until they are complete.
    """
    if sys.modules.get(name) is None:
        sys.meta_path.insert(0, _Finder(name, then, within))
    else:
        then()


def cancel(name: str) -> None:
    """Remove the callbacks for the import of ``name``."""
    sys.meta_path[:] = [x for x in sys.meta_path if getattr(x, "awaited", "") != name]


class _Finder:
    """Meta path finder for ``name`` and the modules of ``then``'s package; calls ``then`` once.

    It delegates to other finders, and notices when a module is complete.
    """

    def __init__(self, name: str, then: Callable[[], None], within: Callable):
        self.awaited, self.then, self.within = name, then, within
        self.package, self.loaded = f"{then.__module__}.", False

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        if name != self.awaited and not name.startswith(self.package):
            return None
        others = [x for x in sys.meta_path if x is not self and hasattr(x, "find_spec")]
        spec = next(filter(None, (x.find_spec(name, path, target) for x in others)), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_call(module) -> None:
                with self.within() if name == self.awaited else nullcontext():
                    load(module)
                self.loaded = self.loaded or name == self.awaited
                if self.loaded and self in sys.meta_path and not self._importing(name):
                    sys.meta_path.remove(self)
                    self.then()

            spec.loader.exec_module = load_and_call
        return spec

    def _importing(self, last: str) -> bool:
        """Return True while modules of the package other than ``last`` are being imported."""
        modules = [*sys.modules.items()]
        ours = (m for name, m in modules if name.startswith(self.package) and name != last)
        specs = (getattr(module, "__spec__", None) for module in ours)
        return any(getattr(spec, "_initializing", False) for spec in specs)
