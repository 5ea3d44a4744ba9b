"""Counts the operations of a forward and backward pass that a GPU's host launches or waits for.

``python -m benchmarks.launches [--shape NAME] [--variants NAMES]`` needs no GPU: models run on the
CPU but take the code paths for a GPU. Every torch operation counts that is neither a view nor an
allocation. Routing and CODA's network count as one operation in each pass, like their kernels.
Batch size and model width do not matter, so they are small; the number of layers does.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from operator import attrgetter
from unittest.mock import patch

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.batches import batches_for, stand_in_task
from benchmarks.shapes import SHAPES, Shape
from benchmarks.training import Trainee
from benchmarks.variants import choose, variants_of
from diverse_mha.common.errors import OneLineParser, run_cli
from diverse_mha.common.tables import Layout, to_markdown
from diverse_mha.criterions import fused_loss
from diverse_mha.methods import orthogonality, term
from diverse_mha.methods.coda.chunked import ChunkedNetwork
from diverse_mha.methods.disagreement import cosine
from diverse_mha.methods.routing.backend import _Recomputed
from diverse_mha.models import attention

BATCH_TOKENS, DRAWN, HEAD_SIZE = 512, 50, 8
BRANCHING = (attention, cosine, fused_loss, orthogonality, term)
KERNELS = (ChunkedNetwork, _Recomputed)
FREE = {"detach", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
FREE |= {"_unsafe_view", "_local_scalar_dense", "promote_types"}
WAITS = {"_local_scalar_dense", "equal", "masked_select", "nonzero"}


class LaunchCounter(TorchDispatchMode):
    """Dispatch mode that counts operations while it is active.

    Attributes:
        launches: number of operations that a GPU would run, by name.
        waits: number of operations for whose result the host waits, by name.
    """

    def __init__(self):
        super().__init__()
        self.launches, self.waits, self._paused = Counter(), Counter(), False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Count an operation and run it."""
        name = func._schema.name.partition("::")[2]
        aliases = (argument.alias_info for argument in func._schema.arguments)
        is_view = any(alias is not None and not alias.is_write for alias in aliases)
        if not self._paused:
            self.waits[name] += name in WAITS
            self.launches[name] += not (is_view or name in FREE)
        return func(*args, **(kwargs or {}))

    def _kernel(self, original: Callable) -> staticmethod:
        """Wrap a function so that all its operations count as one."""

        def run(*args):
            self.launches["kernel"] += 1
            self._paused = True
            try:
                return original(*args)
            finally:
                self._paused = False

        return staticmethod(run)

    def _tolist(self, x: torch.Tensor, original=torch.Tensor.tolist) -> list:
        self.waits["tolist"] += 1  # torch dispatches no operation for tolist
        return original(x)

    @contextmanager
    def on_gpu_branches(self) -> Iterator[None]:
        """Context manager: count while the code takes its paths for a GPU."""
        patches = [(module, "launches_cost", lambda device: True) for module in BRANCHING]
        patches += [
            (cls, way, self._kernel(getattr(cls, way)))
            for cls in KERNELS
            for way in ("forward", "backward")
        ]
        # Dropout is one operation on a GPU, but three on a CPU.
        patches.append((nn.functional, "dropout", _dropout))
        # fairseq makes a tensor on the host to read a shape, which is no launch.
        patches.append((torch.onnx.operators, "shape_as_tensor", attrgetter("shape")))
        patches.append((torch.Tensor, "tolist", lambda x: self._tolist(x)))
        with ExitStack() as stack:
            for owner, name, value in patches:
                stack.enter_context(patch.object(owner, name, value))
            stack.enter_context(self)
            yield


def _dropout(x, p=0.5, training=True, inplace=False):
    return torch.native_dropout(x, p, training)[0] if training and p else x


def _padding(batch: dict) -> int:
    """Return the number of padding tokens of the side with fewer; padding masks add launches."""
    return min(int(x.eq(1).sum()) for x in batch["net_input"].values() if x.dim() == 2)


def count(name: str, shape: Shape) -> tuple[LaunchCounter, LaunchCounter]:
    """Return the counts of a variant's forward and backward pass."""
    width = HEAD_SIZE * shape.heads
    shape = replace(shape, embed_dim=width, ffn_embed_dim=width)
    task, cpu = stand_in_task(shape.vocabulary), torch.device("cpu")
    variant = variants_of(shape)[name]
    trainee = Trainee(variant, shape.options(), task, device=cpu, precision="fp32", seed=1)
    tokens = max(BATCH_TOKENS, int(shape.mean_length))
    batch = max(batches_for(shape, DRAWN, tokens, shape.mean_length, seed=1), key=_padding)
    forward, backward = LaunchCounter(), LaunchCounter()
    with forward.on_gpu_branches():
        loss, *_ = trainee.criterion(trainee.model, batch)
    with backward.on_gpu_branches():
        trainee.optimizer.backward(loss)
    return forward, backward


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print the table."""
    parser = OneLineParser(prog="python -m benchmarks.launches", description=__doc__)
    parser.add_argument("--shape", default="base", choices=SHAPES)
    parser.add_argument("--variants", default="plain,output,em-1-2,all-three,coda")
    args = parser.parse_args(arguments)
    shape, rows = SHAPES[args.shape], []
    for name in choose(args.variants, variants_of(shape)):
        forward, backward = count(name, shape)
        ways = forward.launches.total(), backward.launches.total()
        waits = forward.waits.total() + backward.waits.total()
        rows.append((f"`{name}`", *map(str, (*ways, sum(ways), waits))))
    headings = ("variant", "forward", "backward", "launches", "waits")
    title = f"Operations that the host launches and waits for, shape {args.shape}"
    print(to_markdown(Layout(title, headings, tuple(rows), ())))
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
