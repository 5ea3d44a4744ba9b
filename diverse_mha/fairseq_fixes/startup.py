"""Makes the import of fairseq faster, by leaving out what text does not need.

``diverse_mha/__init__.py`` calls :func:`install` before fairseq is imported, so nothing slow is
imported here. If fairseq is imported already, as by ``fairseq-train --user-dir``, it was imported
whole. Importing fairseq-fixed 0.12.3.1 and the plugin takes 2.4 s of processor time more than torch
alone, of which 0.7 s are left.

A library that is left out is imported when it is used. A missing one fails as without this module.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from diverse_mha.common import start
from diverse_mha.common.on_import import after_import
from diverse_mha.fairseq_fixes.patch import patched

#: Module of fairseq -> libraries that it imports when it uses them, not before.
DEFERRED = {
    # For --report-accuracy-and-f1, --report-mcc and --regression-target: 1.0 s.
    "fairseq.criterions.sentence_prediction": ("sklearn.metrics", "scipy.stats"),
    # For its equal error rate: the same library.
    "fairseq.tasks.audio_classification": ("sklearn",),
    # For --tensorboard-logdir: 0.02 s.
    "fairseq.logging.progress_bar": ("tensorboardX",),
    # For --eval-tb-nsample: the same library.
    "fairseq.tasks.text_to_speech": ("tensorboardX",),
    # For two functions that torch has itself (see _replace_onnx): 0.1 s.
    "fairseq.modules.sinusoidal_positional_embedding": ("torch.onnx.operators",),
}


def install() -> None:
    """Defer the libraries of :data:`DEFERRED` when fairseq is imported."""
    for module, libraries in DEFERRED.items():
        onnx = "torch.onnx.operators" in libraries
        then = partial(_replace_onnx, module) if onnx else _nothing
        after_import(module, then, partial(deferred, libraries))


@contextmanager
def importing() -> Iterator[None]:
    """Context manager for the import of fairseq and the plugin."""
    from hydra.core.config_store import ConfigStore

    from diverse_mha.common.config_store import store_lazily

    with start.uncollected(), patched(ConfigStore, "store", store_lazily):
        yield


@contextmanager
def deferred(libraries: tuple[str, ...]) -> Iterator[None]:
    """Context manager: imports of ``libraries`` get stand-ins, which import them on use."""
    placed = {
        name: _StandIn(name)
        for name in libraries
        if name not in sys.modules and importlib.util.find_spec(name.partition(".")[0])
    }
    sys.modules.update(placed)
    try:
        yield
    finally:
        for name in placed:
            sys.modules.pop(name, None)


class _StandIn(ModuleType):
    """A module whose attributes are deferred."""

    def __getattr__(self, name: str) -> "_Deferred":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Deferred(self.__name__, name)


class _Deferred:
    """A function, class or submodule that is imported when it is called or an attribute is read."""

    def __init__(self, module: str, name: str):
        self._place = module, name

    def _load(self) -> Any:
        module, name = self._place
        return getattr(__import__(module, fromlist=(name,)), name)

    def __call__(self, *args, **kwargs) -> Any:
        return self._load()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)


class _Torch(ModuleType):
    """torch with an attribute ``onnx`` of its own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch"), name)


def _replace_onnx(name: str) -> None:
    """Give a module the functions of ``torch.onnx.operators``, which every forward pass calls.

    The names lead to modules, so that TorchScript accepts them.
    """
    torch = importlib.import_module("torch")
    ours, onnx, operators = _Torch("torch"), ModuleType("onnx"), ModuleType("operators")
    vars(operators).update(
        shape_as_tensor=torch._shape_as_tensor,
        reshape_from_tensor_shape=torch._reshape_from_tensor,
    )
    vars(onnx).update(operators=operators)
    vars(ours).update(onnx=onnx)
    vars(sys.modules[name]).update(torch=ours)


def _nothing() -> None:
    pass
