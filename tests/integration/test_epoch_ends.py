"""With the same batch, updates of 1, 2 and 3 processes are equal, also at the end of an epoch."""

import pytest

from tests.reliability import epoch_ends


@pytest.fixture(scope="module")
def outcomes(miniatures, tmp_path_factory):
    """Number of processes -> what they logged, and the weights they trained."""
    scratch = tmp_path_factory.mktemp("epoch-ends")
    return {n: epoch_ends.train(n, miniatures, scratch) for n in (1, 2, 3)}


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("run", epoch_ends.RUNS)
def test_processes_train_on_the_same_epochs_as_one(run, processes, outcomes):
    alone, several = outcomes[1][run], outcomes[processes][run]
    assert alone["batches"] % epoch_ends.BATCHES == 5, "no empty batch behind a real one"
    assert len(several["updates"]) == len(alone["updates"])
    for ours, theirs in zip(several["updates"], alone["updates"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)
    assert several["validations"] == pytest.approx(alone["validations"], abs=2e-3)  # rounded
    for weights in ("weights", "average"):
        assert several[weights] == pytest.approx(alone[weights], rel=1e-6, abs=1e-9)
    assert several["excess"] <= 0, "a batch of validation, which may be larger, fills the update"
