"""The measures are plain tensor functions: they work where fairseq does not."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys; sys.modules["fairseq"] = None
import torch
from diverse_mha.analysis import cka, disagreement_scores, jensen_shannon, svcca
from diverse_mha.analysis.collect import HeadsMeter
x = torch.randn(50, 4)
print(round(cka(x, x), 3), round(svcca(x, x).mean, 3))
print(float(jensen_shannon(torch.ones(1, 2, 3, 1)).sum()))
print(round(float(disagreement_scores(outputs=torch.ones(1, 2, 3, 4))["output"]), 3))
"""


@pytest.mark.integration
def test_measures_work_where_fairseq_does_not():
    command, root = [sys.executable, "-c", CODE], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert done.stdout.split() == ["1.0", "1.0", "0.0", "0.368"], done.stderr
