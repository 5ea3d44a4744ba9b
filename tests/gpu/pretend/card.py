"""The mode in which tensors pretend to lie on a GPU, and what it counts."""

import traceback
import weakref
from collections import Counter
from collections.abc import Iterator

import torch
import torch.onnx.operators
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

aten = torch.ops.aten
# What makes no kernel run, though it makes a tensor.
_STARTS_NOTHING = {"empty", "new_empty", "empty_like", "empty_strided", "_unsafe_view", "detach"}


class PretendedGPU(FakeTensorMode):
    """Runs operations on tensors without data.

    Attributes:
        started: operations that run kernels on the GPU, by name.
        waited: places of the package where the host waits for a value, by file and line.
        peak: most bytes that tensors held there at a time.
    """

    def __init__(self):
        super().__init__()
        self.started, self.waited, self._depth = Counter(), Counter(), 0
        self.peak, self._held = 0, {}

    def dispatch(self, func, types, args=(), kwargs=None):
        """Run one operation; what decides sizes or branches gets a value made up for it."""
        if func is aten._local_scalar_dense.default:
            self._note_wait(args[0])
            return True if args[0].dtype == torch.bool else 1
        if func is aten.nonzero.default:
            self._note_wait(args[0])
            found = (max(1, args[0].numel() - 2), args[0].dim())
            return args[0].new_empty(found, dtype=torch.long)
        self._depth += 1  # what an operation is made of is no operation of ours
        try:
            result = super().dispatch(func, types, args, kwargs)
        finally:
            self._depth -= 1
        if not self._depth:
            if _runs(func) and next(_on_gpu((*args, result)), None) is not None:
                self.started[func.overloadpacket.__name__] += 1
            for tensor in _on_gpu([result]):
                self._hold(tensor.untyped_storage())
        return result

    def insert(self, value):
        """Move a model, or tensors nested in dicts, onto the GPU; models change in place."""
        if isinstance(value, dict):
            return {key: self.insert(item) for key, item in value.items()}
        if isinstance(value, nn.Module):
            return self._insert_model(value)
        return self.from_tensor(value).to("cuda") if isinstance(value, Tensor) else value

    def _insert_model(self, model: nn.Module) -> nn.Module:
        known: dict[int, tuple[Tensor, Tensor]] = {}
        for module in model.modules():
            for name, value in module.__dict__.items():  # tables that are neither
                if type(value) is Tensor:
                    module.__dict__[name] = self.from_tensor(value)
            for kind, store in ((nn.Parameter, module._parameters), (Tensor, module._buffers)):
                for name, value in store.items():
                    if value is None:
                        continue
                    if id(value) not in known:  # shared ones stay shared
                        moved = self.insert(value).detach()
                        moved = nn.Parameter(moved) if kind is nn.Parameter else moved
                        known[id(value)] = moved, value
                    store[name] = known[id(value)][0]
        return model

    def _hold(self, memory: torch.UntypedStorage) -> None:
        key = memory._cdata
        if key not in self._held:
            self._held[key] = memory.nbytes()
            weakref.finalize(memory, self._held.pop, key)
            self.peak = max(self.peak, sum(self._held.values()))

    def _note_wait(self, value: Tensor) -> None:
        if value.device.type == "cuda":
            places = [f for f in traceback.extract_stack() if "/diverse_mha/" in f.filename]
            place = places[-1] if places else None
            self.waited[f"{place.filename}:{place.lineno}" if place else "elsewhere"] += 1


def _one_kernel_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*q.shape[:3], k.size(2))
    attend = aten._scaled_dot_product_efficient_attention
    return attend(q, k, v, attn_mask, True, dropout_p, is_causal, scale=scale)[0]


def _runs(func) -> bool:
    returns = func._schema.returns
    view = all(value.alias_info and not value.alias_info.is_write for value in returns)
    name = func.overloadpacket.__name__
    return not (returns and view) and name not in _STARTS_NOTHING and func.namespace == "aten"


def _on_gpu(values) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _on_gpu(value)
        elif isinstance(value, Tensor) and value.device.type == "cuda":
            yield value


# For the whole process, which is there to pretend. fairseq asks for sizes as tensors; and of
# attention torch has the plain form alone where there are no data.
torch.onnx.operators.shape_as_tensor = lambda x: tuple(x.shape)
F.scaled_dot_product_attention = _one_kernel_attention
