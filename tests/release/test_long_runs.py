"""Every family of models trains 2,000 updates with nearly constant memory and a falling loss."""

import math

import pytest

from tests.release.demo_runs import RUNS, train_and_watch, training_command

pytestmark = pytest.mark.system

UPDATES = 2000
SETTLED = 200  # updates after which memory must not grow
GROWTH = 1.05


@pytest.mark.parametrize("arch", RUNS)
def test_memory_stays_flat_and_the_loss_falls(arch, demo_data, tmp_path):
    options = ["--max-update", UPDATES, "--log-interval", 50]
    records = train_and_watch(training_command(arch, demo_data, tmp_path, *options))
    inner = [r for r in records if r["phase"] == "train_inner"]
    rss = {int(r["num_updates"]): r["rss"] for r in inner}
    losses = [float(r["loss"]) for r in inner]
    valid = [float(r["valid_loss"]) for r in records if r["phase"] == "valid"]
    growth = rss[UPDATES] / rss[SETTLED]
    print(
        f"\n{arch}: resident memory {rss[SETTLED] / 2**20:.1f} MiB at {SETTLED} updates, "
        f"{rss[UPDATES] / 2**20:.1f} at {UPDATES} ({100 * (growth - 1):+.2f} %); training loss "
        f"{losses[0]:.3f} -> {losses[-1]:.3f}, validation loss {valid[0]:.3f} -> {valid[-1]:.3f}"
    )
    assert len(inner) == UPDATES // 50 and all(map(math.isfinite, losses + valid))
    assert growth <= GROWTH
    assert losses[-1] < losses[0]
