"""Runs of the benchmark are kept and laid out as ranges, with figures given by hand."""

import pytest

from benchmarks import __main__ as command
from benchmarks.ranges import add, format_ranges
from diverse_mha.common.errors import UserError


def run(*, low=0.9, high=1.1, rounds=20, processor="A", threads=2, **options) -> dict:
    shared = {"shape": "tiny", "batch_tokens": 9, "mean_length": 3, "precision": "fp32"}
    variant = {"ratio": (low + high) / 2, "ratio_low": low, "ratio_high": high}
    shared["threads"] = threads
    return {
        "options": {**shared, "compile": False, "device": "cpu", "rounds": rounds} | options,
        "machine": {"gpu": None, "processor": processor, "threads": threads, "cores": 2},
        "variants": {"output": variant},
    }


def test_a_range_reaches_over_all_runs_of_the_same_options(tmp_path):
    add(tmp_path, run(low=0.83, high=1.17))
    add(tmp_path, run(low=0.1, high=9, shape="base"))
    add(tmp_path, run(low=0.1, high=9, threads=1))
    runs = add(tmp_path, run(low=1.08, high=1.28, processor="B", rounds=30))
    text = format_ranges(runs)
    assert "2 runs of at least 20 rounds on 1 day and 2 machines" in text
    assert "| `output` | 0.83 to 1.28 | 1.000, 1.180 | 50 |" in text
    assert len(list(tmp_path.iterdir())) == 4


def test_a_file_that_is_no_run_is_named(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    words = ["--shape", "tiny", "--rounds", "20", "--add-to", str(tmp_path), "--device", "cpu"]
    with pytest.raises(UserError, match="other.json: no run of the benchmark"):
        command.main(words)  # before anything is measured
    assert len(list(tmp_path.iterdir())) == 1


def test_a_short_run_does_not_count(tmp_path):
    words = ["--shape", "tiny", "--rounds", "19", "--add-to", str(tmp_path), "--device", "cpu"]
    with pytest.raises(UserError, match="--rounds 19: .* at least 20 rounds"):
        command.main(words)


def test_the_command_prints_the_range(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "measure", lambda args: run(rounds=args.rounds))
    monkeypatch.setattr(command, "format_markdown", lambda result: "table")
    words = ["--shape", "tiny", "--rounds", "20", "--add-to", str(tmp_path), "--device", "cpu"]
    assert command.main(words) == 0
    assert "| `output` | 0.90 to 1.10 | 1.000 | 20 |" in capsys.readouterr().out
