"""``benchmarks/pruned.py`` compares checkpoints before and after ``prune --remove``."""

import pytest

from benchmarks import pruned
from tests.analysis.test_removal import prune


@pytest.mark.system
def test_the_benchmark_compares_checkpoints(checkpoint, data, tmp_path, capsys):
    small = prune(
        checkpoint, data, tmp_path / "small.pt", "--heads", 6, "--by", "random", "--remove"
    )
    capsys.readouterr()
    pruned.main([str(data), str(checkpoint), str(small), "--rounds", "2", "--subset", "valid"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[0] == "checkpoint" and lines[3].split()[0] == str(small)
    assert lines[2].count(", 1.000 (1.000-1.000)") == 2
