"""Trainings interrupted at every update and at every write of a checkpoint.

Every resumed run must end with the bits of an uninterrupted one: weights, optimizer state and
learning rate. The number of injected faults is printed.
"""

import pytest

from tests.reliability import resume
from tests.reliability.faults import Fault
from tests.reliability.runs import HALF, RUNS, words

pytestmark = pytest.mark.system

SAVE = ["--save-interval-updates", 3, "--max-update", resume.UPDATES]


def check_every_update(arch, miniatures, folder, updates, *options):
    """Interrupt a run at each of ``updates``; compare the last checkpoints; count the runs."""
    save_dir = folder / "whole"
    whole, _ = resume.whole_run(words(arch, miniatures, save_dir, *SAVE, *options), save_dir)
    for n in updates:
        fault, save_dir = Fault("update", n, "SIGKILL" if n % 2 else "SIGTERM"), folder / str(n)
        run = words(arch, miniatures, save_dir, *SAVE, *options)
        last, _ = resume.interrupted_run(run, save_dir, fault)
        assert resume.differences(whole, last) == [], fault
    return len(updates)


@pytest.mark.parametrize("arch", RUNS)
def test_a_run_killed_at_any_update_ends_with_the_same_bits(arch, miniatures, tmp_path):
    count = check_every_update(arch, miniatures, tmp_path, range(1, resume.UPDATES + 1))
    print(f"\n{arch}: stopped at each of {count} updates, every run ends with the same bits")


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize(
    "arch", ["transformer_routing", "transformer_lm_coda", "sentence_classifier"]
)
def test_a_half_precision_run_killed_at_an_update_ends_with_the_same_bits(
    arch, name, miniatures, tmp_path
):
    count = check_every_update(arch, miniatures, tmp_path, (5, 8), *HALF[name])
    print(f"\n{arch}, {name}: stopped at {count} updates, every run ends with the same bits")


@pytest.mark.parametrize("how", ["kill", "full", "SIGKILL"])
def test_a_run_interrupted_at_any_checkpoint_write_ends_with_the_same_bits(
    how, miniatures, tmp_path
):
    arch, save_dir = "transformer_disagree", tmp_path / "whole"
    whole, writes = resume.whole_run(words(arch, miniatures, save_dir, *SAVE), save_dir)
    assert writes > 8
    size = (save_dir / "checkpoint_last.pt").stat().st_size
    if how == "SIGKILL":
        faults = [Fault("rename", n, how) for n in range(1, writes + 1)]
    else:
        sizes = (0, size // 2, size - 100)
        faults = [Fault("write", n, how, s) for n in range(1, writes + 1) for s in sizes]
    for number, fault in enumerate(faults):
        save_dir = tmp_path / str(number)
        last, message = resume.interrupted_run(
            words(arch, miniatures, save_dir, *SAVE), save_dir, fault
        )
        assert resume.differences(whole, last) == [], fault
        assert how != "full" or message.startswith("error: checkpoint not saved: "), fault
    print(f"\n{how}: {len(faults)} faults in {writes} writes, every run ends with the same bits")
