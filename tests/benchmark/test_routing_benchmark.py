"""The routing benchmark runs, and measures what it says."""

import sys

import pytest

from diverse_mha.benchmark import routing


def test_steps_take_turns():
    """Two steps, three rounds and the one that is not counted: a b a b a b a b."""
    order = []
    steps = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    seconds = routing.interleaved(steps, rounds=3)
    assert order == ["a", "b"] * 4
    assert set(seconds) == {"a", "b"} and all(value >= 0 for value in seconds.values())


@pytest.mark.parametrize("form", ["plain", "chunked"])
@pytest.mark.parametrize("name", ["em-routing", "simple-routing"])
def test_steps_run(name, form):
    routing.step_of(name, form, (3, 2, 4, 1))()
    routing.module_step_of(name, form, (3, 2, 4, 1))()
    routing.module_step_of("linear", form, (3, 2, 4, 1))()


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_fused_routing_needs_less_memory():
    """16 MiB of votes: their gradient and the result, against what plain autograd keeps."""
    shape = (1024, 8, 512, 1)
    plain, fused = (
        routing.peak_memory(routing.step_of, ("em-routing", form, shape), threads=1)
        for form in ("plain", "chunked")
    )
    assert fused <= 0.6 * plain


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_prints_a_table(monkeypatch, capsys):
    argv = "routing --tokens 8 --heads 2 --width 16 --rounds 1 --threads 1 --forms chunked"
    monkeypatch.setattr(sys, "argv", argv.split())
    routing.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 1 + 1 + 3
    assert [line.split()[0] for line in lines[2:]] == ["em-routing", "simple-routing"] + [
        "module"
    ] * 3
