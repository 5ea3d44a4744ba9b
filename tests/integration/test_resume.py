"""A training interrupted by a kill or a full disk resumes to the same weights."""

import pytest
import torch

from diverse_mha.common.status import read_status
from tests.reliability import resume
from tests.reliability.faults import Fault
from tests.reliability.runs import words

pytestmark = pytest.mark.integration

SAVE = ["--save-interval-updates", 3, "--max-update", resume.UPDATES]


@pytest.fixture(scope="module")
def whole(miniatures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return resume.whole_run(words("transformer_coda", miniatures, folder, *SAVE), folder)[0]


# A run writes checkpoints in this order: checkpoint_1_3, best, last, checkpoint1, best, last, ...
FAULTS = {
    "killed-before-the-first-save": Fault("update", 2, "SIGKILL"),
    "killed-while-copying-the-last": Fault("write", 6, "kill", 20_000),
    "disk-full-while-saving": Fault("write", 4, "full", 20_000),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_an_interrupted_run_ends_with_the_same_weights(name, miniatures, whole, tmp_path):
    fault = FAULTS[name]
    run = words("transformer_coda", miniatures, tmp_path, *SAVE)
    last, printed = resume.interrupted_run(run, tmp_path, fault)
    assert resume.differences(whole, last) == []
    status = read_status(tmp_path)
    assert (status.updates, status.finished) == (resume.UPDATES, True) and status.best
    if fault.how == "full":
        assert printed.startswith("error: checkpoint not saved: ") and "\n" not in printed
        assert ".pt: File too large; raise the limit" in printed
    assert not list(tmp_path.glob("*.tmp")), "no temporary file of a killed process is left"


def test_half_precision_resumes_from_float32_weights(miniatures, tmp_path):
    run = [
        words("sentence_classifier", miniatures, tmp_path / name, *SAVE, "--bf16")
        for name in ("whole", "parts")
    ]
    last, _ = resume.whole_run(run[0], tmp_path / "whole")
    fault = Fault("update", 5, "SIGKILL")
    again, _ = resume.interrupted_run(run[1], tmp_path / "parts", fault)
    assert resume.differences(last, again) == []
    masters = again["extra_state"]["SentenceClassificationTask"]["fp32_params"]
    assert any(not torch.equal(p, p.bfloat16().float()) for p in masters)


def test_fused_adam_resumes_runs_of_fused_adam_exactly_and_of_adam_closely(miniatures, tmp_path):
    fused = ["--optimizer", "fused_adam"]
    run = [words("transformer_coda", miniatures, tmp_path / name, *SAVE, *fused) for name in "ab"]
    last, _ = resume.whole_run(run[0], tmp_path / "a")
    again, _ = resume.interrupted_run(run[1], tmp_path / "b", Fault("update", 5, "SIGKILL"))
    assert resume.differences(last, again) == []
    stock = words("transformer_coda", miniatures, tmp_path / "c", "--max-update", 3)
    resume.whole_run(stock, tmp_path / "c")
    mixed, _ = resume.whole_run([*stock, *map(str, SAVE), *fused], tmp_path / "c")
    for name, one in last["model"].items():
        torch.testing.assert_close(one, mixed["model"][name], rtol=0, atol=1e-3)


def test_repeating_a_finished_training_changes_nothing(miniatures, tmp_path):
    run = words("transformer_coda", miniatures, tmp_path, "--max-update", 3)
    before, _ = resume.whole_run(run, tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pt")}
    again, printed = resume.whole_run(run, tmp_path)
    assert read_status(tmp_path).finished
    assert resume.differences(before, again) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pt")} == stamps
