"""The measures are plain tensor functions: they work where fairseq does not."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.integration
def test_measures_work_where_fairseq_does_not():
    code = (
        "import sys; sys.modules['fairseq'] = None\n"
        "import torch\n"
        "from diverse_mha.analysis import cka, disagreement_scores, jensen_shannon, svcca\n"
        "from diverse_mha.analysis.collect import HeadsMeter\n"
        "x = torch.randn(50, 4)\n"
        "print(round(cka(x, x), 3), round(svcca(x, x).mean, 3),\n"
        "      float(jensen_shannon(torch.ones(1, 2, 3, 1)).sum()),\n"
        "      round(float(disagreement_scores(outputs=torch.ones(1, 2, 3, 4))['output']), 3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split() == ["1.0", "1.0", "0.0", "0.368"], done.stderr
