"""The benchmark of the cascades: it checks before it measures, and prints what it should."""

import pytest

from diverse_mha.benchmark import cascade as benchmark
from diverse_mha.common.errors import UserError


@pytest.mark.parametrize("part", benchmark.PARTS)
@pytest.mark.parametrize("layers", [1, 3])
def test_forms_agree(part, layers):
    benchmark.check(part, (2, 4, 9), layers)


def test_forms_that_differ_are_refused(monkeypatch):
    honest = benchmark.step_of

    def biased(part, form, *args):
        step = honest(part, form, *args)
        return (lambda: [1.001 * grad for grad in step()]) if form == "fused" else step

    monkeypatch.setattr(benchmark, "step_of", biased)
    with pytest.raises(AssertionError, match="not close"):
        benchmark.check("network", (2, 4, 9), 3)


def test_table_has_a_row_for_each_part_and_form(monkeypatch, capsys):
    monkeypatch.setattr(
        benchmark, "peak_memory", lambda call, threads: {"fused": 1.0}.get(call[1], 4.0)
    )
    sizes = "--batch 2 --heads 2 --length 8 --layers 2 --rounds 1 --threads 1"
    monkeypatch.setattr("sys.argv", ["cascade", *sizes.split()])
    benchmark.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert [row[:2] for row in rows] == [[p, f] for p in benchmark.PARTS for f in benchmark.FORMS]
    assert [row[4:] for row in rows] == [["4", "1.00"], ["1", "0.25"]] * len(benchmark.PARTS)
    assert [row[3] for row in rows[::2]] == ["1.00"] * len(benchmark.PARTS)


def test_impossible_sizes_are_named(monkeypatch):
    monkeypatch.setattr("sys.argv", ["cascade", "--rounds", "0"])
    with pytest.raises(UserError, match="--rounds: 0 is not a whole number from 1 up"):
        benchmark.main()
