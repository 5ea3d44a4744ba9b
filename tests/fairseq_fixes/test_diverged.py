"""A training that diverges ends with a one-line error, without fairseq's gradient dump."""

import pytest

from diverse_mha.common.status import read_status
from tests.integration.conftest import data, train  # noqa: F401

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("arch", ["transformer_disagree_tiny", "transformer"])
def test_infinite_gradients_end_a_training_in_one_line(arch, data, tmp_path):  # noqa: F811
    diverging = ["--arch", arch, "--lr", "1e30", "--lr-scheduler", "fixed", "--max-update", "9"]
    done = train(data, tmp_path, *diverging, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "StopIteration" not in done.stderr
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith("error: update ") and "lower the learning rate" in message
    log = done.stdout + done.stderr
    assert "detected in output of " in log and "NaN or Inf in " in log
    assert "tensor([" not in log, "gradients are not printed"
    status = read_status(tmp_path)
    assert status.diverged and not status.finished
