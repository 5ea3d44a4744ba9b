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


HALF = {
    "memory-efficient": ["--memory-efficient-fp16"],
    "flat": ["--fp16", "--fp16-no-flatten-grads"],
}


@pytest.mark.parametrize("precision", HALF)
def test_float16_that_overflows_at_the_smallest_loss_scale_has_diverged(
    precision,
    data,  # noqa: F811
    tmp_path,
):
    """One overflow is skipped, as the scale 0.5 is above the smallest, and 0.25 is not."""
    half = [*HALF[precision], "--fp16-init-scale", 1, "--min-loss-scale", 0.3]
    half += ["--lr", 1e30, "--lr-scheduler", "fixed", "--max-update", 99]
    done = train(data, tmp_path, *half, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "gradient overflow detected" in done.stdout + done.stderr
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith("error: update ") and "the smallest loss scale" in message
    status = read_status(tmp_path)
    assert status.diverged and not status.finished
