"""Synchronisation of host and GPU in a training step."""

import traceback
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.batches import batches_for, stand_in_task
from benchmarks.shapes import SHAPES, LanguageModelShape
from benchmarks.training import Trainee
from benchmarks.variants import STOCK, variants_of
from diverse_mha.criterions import token_loss
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss
from diverse_mha.methods.disagreement import cosine
from tests.gpu.device import DEVICE, MARKS, ON_GPU, to_device

pytestmark = MARKS
SHAPE = {
    # In fairseq's model, the host waits once per layer, so these models are as deep as real ones.
    "translation": replace(SHAPES["tiny"], embed_dim=32, ffn_embed_dim=64, layers=6),
    "lm": LanguageModelShape(32, 64, 2, 4, vocabulary=200, batch_tokens=200, mean_length=20),
}
# Operations whose output size depends on values, or whose output is on the host.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "unique_dim", "_unique2", "equal"}
# Code in this file waits for tensors on the CPU only.
CPU_ONLY = str(Path(cosine.__file__))


class Waits(TorchDispatchMode):
    """Counts operations for which the host would wait for a GPU; works on any device."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        by_mask = name in ("index", "index_put", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if (name in WAITING or by_mask) and not _in_cpu_only_code():
            self.found[name] += 1
        return function(*args, **(kwargs or {}))


def _in_cpu_only_code() -> bool:
    own = (f.f_code.co_filename for f, _ in traceback.walk_stack(None))
    return next((name for name in own if "/diverse_mha/" in name), None) == CPU_ONLY


def waits_of(family, name) -> int:
    """Return how often the host waits for the device in the second training step."""
    shape = SHAPE[family]
    variant = variants_of(shape)[name]
    task = stand_in_task(shape.vocabulary)
    trainee = Trainee(variant, shape.options(), task, device=DEVICE, precision="fp32", seed=1)
    batch = batches_for(shape, 1, 200, shape.mean_length, 1)[0]
    batch = to_device(batch)
    trainee.step(batch)
    if not ON_GPU:
        with Waits() as waits:
            trainee.step(batch)
        return sum(waits.found.values())
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            trainee.step(batch)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(one.message) for one in caught)


@pytest.mark.parametrize("family", SHAPE)
def test_the_host_waits_no_more_often_than_in_stock_fairseq(family, record_property, monkeypatch):
    as_on_a_gpu = partial(fused_label_smoothed_loss, may_wait=False)
    monkeypatch.setattr(token_loss, "fused_label_smoothed_loss", as_on_a_gpu)
    found = {name: waits_of(family, name) for name in variants_of(SHAPE[family])}
    for name, count in found.items():
        record_property(name, count)
    assert {name: n for name, n in found.items() if n > found[STOCK]} == {}


def test_waits_are_counted():
    with Waits() as waits:
        x = torch.arange(4.0)
        x[x > 1].sum().item()
        x.nonzero()
    assert waits.found == {"index": 1, "_local_scalar_dense": 1, "nonzero": 1}
