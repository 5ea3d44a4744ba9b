"""What a result says of the machine it was measured on."""

import pytest

from diverse_mha.training.reproduce.results import had_to_share


@pytest.mark.parametrize(
    ("train", "processor", "gpus", "shared"),
    [
        (95.0, 97.0, [], False),  # all of one core
        (95.0, 180.0, [], False),  # two threads
        (95.0, 89.0, [], True),
        (95.0, 20.0, ["a GPU"], False),  # where the processor mostly waits
        (95.0, None, [], False),  # a result that does not say
    ],
)
def test_less_than_a_core_means_a_shared_machine(train, processor, gpus, shared):
    seconds = {"train": train, "evaluate": 5.0}
    if processor is not None:
        seconds["processor"] = processor
    assert had_to_share({"seconds": seconds, "hardware": {"gpus": gpus}}) is shared
