"""Garbage collection and torch's compiler while a command starts, and in a user's program."""

import gc
import subprocess
import sys

import pytest

from diverse_mha.common import start


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setattr(start, "_usual", None)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    enabled, threshold = gc.isenabled(), gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    (gc.enable if enabled else gc.disable)()


def test_a_command_exempts_what_it_imported_and_collects_as_usual_after(monkeypatch):
    usual = gc.get_threshold()
    with monkeypatch.context() as before:
        before.setattr(sys, "modules", {})
        start.start_command()
    with start.uncollected():
        assert not gc.isenabled()
    assert gc.get_threshold() != usual
    start.command_started()
    assert gc.get_freeze_count() > 0 and gc.isenabled() and gc.get_threshold() == usual
    start.start_command()
    assert gc.get_threshold() == usual, "torch is imported: this is not the start of a process"


@pytest.mark.parametrize("enabled", [True, False])
def test_objects_of_a_users_program_are_collected(enabled):
    (gc.enable if enabled else gc.disable)()
    with start.uncollected():
        assert not gc.isenabled()
    start.command_started()
    assert gc.get_freeze_count() == 0 and gc.isenabled() is enabled


@pytest.mark.integration
def test_torchs_compiler_is_imported_by_the_first_compilation_and_gives_the_same():
    code = """if True:
        import sys
        from diverse_mha.common import start
        start.start_command()
        import torch
        from torch.utils.checkpoint import checkpoint
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.5)
        weight.grad = torch.ones(2)
        optimizer.zero_grad(set_to_none=False)
        optimizer.load_state_dict(optimizer.state_dict())
        with torch.device("meta"):
            torch.nn.Embedding(3, 4)
        assert weight.grad.sum() == 0 and "torch._dynamo" not in sys.modules

        def seeded(x):
            torch.manual_seed(5)
            optimizer.zero_grad()
            return checkpoint(torch.sin, x + torch.rand(3), use_reentrant=False)

        expected = seeded(torch.ones(3))
        weight.grad = torch.ones(2)
        compiled = torch.compile(seeded, backend="eager")(torch.ones(3))
        assert torch.equal(compiled, expected) and weight.grad is None
        assert "torch._dynamo" in sys.modules
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
