"""``python -m benchmarks.launches`` counts kernel launches and waits of a GPU's host."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks import launches
from benchmarks.launches import LaunchCounter, count
from benchmarks.shapes import SHAPES, Shape
from diverse_mha.models import attention

TOY = Shape(16, 24, 3, 4, vocabulary=40, batch_tokens=100, mean_length=8)


def total(name, shape=TOY):
    return sum(way.launches.total() for way in count(name, shape))


def test_kernels_are_counted_but_views_and_allocations_are_not():
    x, weight, bias = (torch.ones(*size, requires_grad=True) for size in ((2, 3), (3, 3), (3,)))
    with LaunchCounter() as counter:
        y = F.linear(x, weight, bias).view(3, 2).t()
        torch.empty(3).detach()
        y.sum().item()
    assert +counter.launches == {"addmm": 1, "sum": 1}
    assert +counter.waits == {"_local_scalar_dense": 1}
    with LaunchCounter() as counter:
        y.backward(torch.ones_like(y))
    assert counter.launches["mm"] == 2 and counter.launches["sum"] == 1


def test_gpu_code_is_counted_and_a_fused_kernel_counts_once():
    forward, backward = count("coda", TOY)
    assert forward.launches["native_dropout"] and not forward.launches["bernoulli_"]
    # Each of the three components has a cascade in layers 2 and 3.
    assert forward.launches["kernel"] == backward.launches["kernel"] == 6
    assert not forward.waits["nonzero"]  # the loss calls nonzero on a CPU only
    assert count("em-1-2", TOY)[0].launches["kernel"] == 2


@pytest.mark.parametrize("name", ["plain", "coda"])
def test_launches_do_not_depend_on_the_batch_size(name, monkeypatch):
    before = total(name)
    monkeypatch.setattr(launches, "BATCH_TOKENS", 2 * launches.BATCH_TOKENS)
    assert total(name) == before


def test_a_plain_model_launches_less_and_waits_less_than_stock():
    (ours, stock) = [count(name, TOY) for name in ("plain", "stock")]
    for of in (lambda way: way.launches.total(), lambda way: way.waits.total()):
        assert sum(map(of, ours)) < sum(map(of, stock))


def test_a_joint_projection_of_queries_keys_and_values_saves_launches(monkeypatch):
    together = total("plain")
    monkeypatch.setattr(attention.DiverseAttention, "_project_jointly", lambda self, x: None)
    assert together == total("plain") - 7 * 2 * TOY.layers


def test_codas_causal_mask_is_made_once_a_batch():
    assert count("coda", TOY)[0].launches["triu"] == 1


def test_command_prints_a_table(monkeypatch, capsys):
    monkeypatch.setitem(SHAPES, "base", TOY)
    assert launches.main(["--variants", "plain"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) == 4 and rows[2].startswith("| `stock`") and rows[3].startswith("| `plain`")
    assert rows[3].split(" | ")[3] == str(total("plain"))
