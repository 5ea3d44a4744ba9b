"""Choice of the routing backend, and failures of backends."""

import logging
import sys

import pytest
import torch

from benchmarks.memory import peak_memory
from diverse_mha.methods.routing import (
    RoutingAggregation,
    backend,
    cpp_kernel,
    em_routing,
    fused_routing,
)
from diverse_mha.methods.routing.routing import ROUTINGS
from tests.methods.routing.test_routing_algorithms import EXACT, ORACLES, value_and_grad, votes_of


def test_float32_on_the_cpu_uses_the_kernel(monkeypatch):
    """Votes in float64, and capsules of two dimensions, are routed without the kernel."""
    calls = []
    forward = cpp_kernel.KernelRouting.forward
    monkeypatch.setattr(
        cpp_kernel.KernelRouting,
        "forward",
        lambda self, v: calls.append(v.shape) or forward(self, v),
    )
    fused_routing(em_routing, votes_of((2, 3, 4, 1), torch.float32), {})
    assert len(calls) == 1
    fused_routing(em_routing, votes_of((2, 3, 4, 1)), {})
    fused_routing(em_routing, votes_of((2, 3, 2, 2), torch.float32), {})
    assert len(calls) == 1


def mean_routing(votes: torch.Tensor, iterations: int = 1) -> torch.Tensor:
    """A routing without a kernel: the mean over heads."""
    return votes.mean(dim=1)


def test_a_routing_without_a_kernel_runs_in_torch(monkeypatch):
    votes = votes_of((2, 3, 4, 1), torch.float32)
    torch.testing.assert_close(fused_routing(mean_routing, votes, {}), votes.mean(dim=1))
    with pytest.raises(ValueError, match="backend is 'kernel'.*EM or simple routing"):
        fused_routing(mean_routing, votes, {}, backend="kernel")
    monkeypatch.setitem(ROUTINGS, "mean", mean_routing)
    module = RoutingAggregation(8, 2, kind="mean", iterations=2)
    assert module.options == {"iterations": 2} and module(torch.ones(5, 8)).shape == (5, 8)


@pytest.fixture
def fresh_library():
    cpp_kernel.native_code.cache_clear()
    yield
    cpp_kernel.native_code.cache_clear()


@pytest.mark.integration
def test_the_kernel_is_built_once_for_each_compiler_and_flags(monkeypatch, tmp_path, fresh_library):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cpp_kernel, "FLAGS", cpp_kernel.FLAGS.replace("-O3", "-O0"))  # fast build
    first = cpp_kernel.build()
    assert [first] == list((tmp_path / "diverse_mha").iterdir())
    built = first.stat().st_mtime_ns
    assert cpp_kernel.build() == first and first.stat().st_mtime_ns == built
    monkeypatch.setenv("CXX", "c++ -DOTHER")
    second = cpp_kernel.build()
    monkeypatch.setattr(cpp_kernel, "FLAGS", cpp_kernel.FLAGS + " -DOTHER")
    assert len({first, second, cpp_kernel.build()}) == 3


@pytest.mark.parametrize(
    "compiler, reason",
    [
        ("", "no C++ compiler found (looked for $CXX, c++, g++, clang++)"),
        ("false", "returned non-zero exit status"),
        ('g++ "-O2', "No closing quotation"),
    ],
)
def test_without_a_working_compiler_torch_is_used_with_one_warning(
    compiler, reason, monkeypatch, tmp_path, caplog, fresh_library
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    which = cpp_kernel.shutil.which
    monkeypatch.setattr(
        cpp_kernel.shutil, "which", lambda name: which(name) if name == "false" else None
    )
    votes = votes_of((40, 4, 6, 1), torch.float32)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            value = fused_routing(em_routing, votes, {"iterations": 2})
    torch.testing.assert_close(value, em_routing(votes, 2))
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("routing runs without compiled code, and slower: ")
    assert reason in message
    assert not list(tmp_path.rglob("*.so"))
    with pytest.raises(ValueError, match="backend is 'kernel', and votes are torch.float32 on cpu"):
        fused_routing(em_routing, votes, {}, backend="kernel")


def test_if_torch_compile_fails_plain_torch_is_used_with_one_warning(monkeypatch, caplog):
    """Three calls give one warning."""

    def broken(*variant):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(backend, "_compile", broken)
    monkeypatch.setattr(backend, "_failed", set())
    backend._warn.cache_clear()
    monkeypatch.setattr(backend, "CPU_CHUNK", 16 * 4 * 6)
    votes = votes_of((40, 4, 6, 1)).requires_grad_()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            value = fused_routing(em_routing, votes, {"iterations": 2}, backend="compiled")
            value.sum().backward()
    torch.testing.assert_close(value, em_routing(votes, 2), **EXACT)
    assert [r.getMessage() for r in caplog.records] == [
        "routing runs uncompiled, and slower: torch.compile failed (RuntimeError: no compiler)"
    ]


def test_out_of_memory_is_not_a_failure_of_the_compiler(monkeypatch, caplog):
    """Compilation is not marked as failed, so the next batch is compiled as usual."""

    def full(*variant):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(backend, "_compile", full)
    monkeypatch.setattr(backend, "_failed", set())
    monkeypatch.setattr(backend, "CPU_CHUNK", 16 * 4 * 6)
    with pytest.raises(torch.OutOfMemoryError, match="no memory"):
        fused_routing(em_routing, votes_of((40, 4, 6, 1)), {}, backend="compiled")
    assert not backend._failed and not caplog.messages


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("routing", ORACLES)
def test_compiled_routing_equals_the_algorithm(routing, monkeypatch):
    """16, 28 and 35 tokens leave a last chunk that is full, padded, or too short for padding."""
    monkeypatch.setattr(backend, "CPU_CHUNK", 16 * 4 * 6)
    for tokens in (16, 28, 35):
        votes = votes_of((tokens, 4, 6, 1))
        expected = value_and_grad(routing, votes)
        result = value_and_grad(lambda v: fused_routing(routing, v, {}, backend="compiled"), votes)
        torch.testing.assert_close(result, expected, **EXACT)
    assert not backend._failed


def test_a_cache_folder_that_others_may_write_to_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "diverse_mha").mkdir()
    (tmp_path / "diverse_mha").chmod(0o777)
    with pytest.raises(RuntimeError, match="is writable by others; run chmod go-w on it"):
        cpp_kernel.build()


def forward_and_backward(form: str) -> None:
    votes = torch.randn(4096, 8, 512, 1, requires_grad=True)
    routed = (
        em_routing(votes) if form == "plain" else fused_routing(em_routing, votes, {}, backend=form)
    )
    routed.sum().backward()


@pytest.mark.parametrize("form", ["kernel", "chunked"])
def test_fused_routing_keeps_only_the_votes_for_the_backward_pass(form):
    """Plain routing keeps more than ten tensors as large as the votes."""
    votes = torch.randn(64, 8, 32, 1, requires_grad=True)
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        fused_routing(em_routing, votes, {}, backend=form)
    assert sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) == votes.nbytes


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_fused_routing_needs_less_memory():
    """With 64 MiB of votes, peak memory is at most 60 % of that of plain autograd."""
    plain, fused = (
        peak_memory(forward_and_backward, form, device=torch.device("cpu"), threads=1)
        for form in ("plain", "chunked")
    )
    assert fused <= 0.6 * plain
