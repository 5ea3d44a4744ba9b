"""How a stack calls its layers: as they are, or in training through ``torch.compile``."""

import functools
import logging
from dataclasses import dataclass
from types import FunctionType

import torch
from torch import nn
from torch.nn import Linear

from diverse_mha.common.options import option

logger = logging.getLogger(__name__)

_BACKEND = "inductor"  # torch's default


@dataclass
class CompileOptions:
    """Whether to compile."""

    compile: bool = option(
        False,
        "train the layers without routing or cascade through torch.compile; where it does not "
        "work, one line in the log says so and training goes on without",
    )


def compilable(layer: nn.Module) -> bool:
    """Whether a layer's attention is made of torch's operations; routing and cascade are not."""
    attentions = (layer.self_attn, getattr(layer, "encoder_attn", None))
    return all(
        attention is None or (attention.cascade is None and isinstance(attention.out_proj, Linear))
        for attention in attentions
    )


def _call(layer: nn.Module, *args, **options):
    return layer(*args, **options)


@functools.cache
def _compiled_call(kind: tuple[str, ...]):
    # The layer is an argument, so layers of one kind share their compiled code, and no module
    # holds any: copies (EMA) and checkpoints are as without. Lengths change from batch to batch,
    # and a length or a batch of 1 is a case of its own. torch leaves a function uncompiled that
    # has had 8 cases, so each kind of call is a function with code of its own.
    own = FunctionType(_call.__code__.replace(co_name=f"_call_{'_'.join(kind)}"), globals())
    return torch.compile(own, dynamic=True, backend=_compile_both_passes)


def _compile_both_passes(graph: torch.fx.GraphModule, inputs: list):
    from torch._functorch import config  # seconds to import

    # By itself torch compiles the backward pass when that begins, where nothing catches what fails.
    known = hasattr(config, "force_non_lazy_backward_lowering")  # older releases lack it
    with config.patch({"force_non_lazy_backward_lowering": True} if known else {}):
        return torch._dynamo.lookup_backend(_BACKEND)(graph, inputs)


def _kind(layer: nn.Module, options: dict) -> tuple[str, ...]:
    """Name what tells a call from others: class, masks that are there, states asked for."""
    there = (name for name, value in options.items() if value is not None and value is not False)
    states = (name for value in options.values() if isinstance(value, tuple) for name in value)
    return (type(layer).__name__, *there, *states)


@functools.cache  # one line, whatever the number of stacks
def _warn(reason: str) -> None:
    logger.warning(
        "--compile: torch.compile does not work here, the layers run without it (%s)", reason
    )


class LayerCalls:
    """Calls layers, and falls back to plain calls where they cannot be compiled.

    Only training is compiled: evaluation and decoding change shapes and options too often to
    win back the seconds that every compilation takes. Layers with routing or a cascade are called
    as they are, for these have kernels of their own.

    Attributes:
        compiled: Whether to compile. Cleared, with one line in the log, when it does not work.
    """

    def __init__(self, compiled: bool = False):
        self.compiled = compiled

    def __call__(self, layer: nn.Module, *args, **options):
        """Return what ``layer(*args, **options)`` does."""
        if not (self.compiled and layer.training and compilable(layer)):
            return layer(*args, **options)
        try:
            return _compiled_call(_kind(layer, options))(layer, *args, **options)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a compiler's failure can be of any class
            output = layer(*args, **options)  # and an error of the layer's own comes up again
            self.compiled = False
            _warn(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            return output
