"""What a result says of the machine it was measured on."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from diverse_mha.training.log import TRAIN_LOG
from experiments.experiments import Experiment
from experiments.plan import plan
from experiments.results import COST, best_validation, collect, had_to_share, hardware, machine_of

LOG = '{"epoch": 1, "ups": "2.0", "num_updates": "5"}\n' * 2


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


def test_nothing_is_known_of_the_machine_of_a_training_that_another_command_did(tmp_path):
    (tmp_path / TRAIN_LOG).write_text(LOG)
    made = partial(collect, plan(Experiment("ptb"), "smoke"), tmp_path, share={}, gpus=0)
    alone = made({"evaluate": 5.0, "processor": 1.0}, [])
    assert not had_to_share(alone) and machine_of(alone) == "one that is not known"
    (tmp_path / COST).write_text('{"processor_seconds": 1.0, "seconds": 9.0, "updates": 2}')
    ours = made({"evaluate": 5.0, "processor": 1.0}, [])
    assert had_to_share(ours) and ", cores " in machine_of(ours)


def test_a_validation_that_is_no_number_is_not_the_best():
    run = plan(Experiment("ptb"), "smoke")
    scored = [{"loss": loss, "ppl": 2**loss} for loss in (float("nan"), 5.0, 4.0, float("nan"))]
    assert best_validation(run, scored) == scored[2]
    assert best_validation(run, scored[:1]) is None


def test_of_validations_alike_the_last_chose_the_checkpoint():
    """Also where the score goes up; what else they report differs."""
    scored = [{"loss": 6.818, "ppl": ppl} for ppl in (112.83, 112.81)] + [{"loss": 7.0, "ppl": 128}]
    assert best_validation(plan(Experiment("ptb"), "smoke"), scored) == scored[1]
    up = {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True}
    run = replace(plan(Experiment("ptb"), "smoke"), composed={"checkpoint": up})
    scored = [{"bleu": bleu, "ppl": ppl} for bleu, ppl in ((40.5, 9.0), (40.5, 8.0), (40.4, 7.0))]
    assert best_validation(run, scored) == scored[1]


@pytest.mark.parametrize(
    ("share", "used", "expected"),
    [({}, 2, [0, 1]), ({}, 0, []), ({"CUDA_VISIBLE_DEVICES": "4,6"}, 2, [0, 2])]
    + [({"CUDA_VISIBLE_DEVICES": "5,6"}, 1, [1])],
)
def test_the_gpus_of_a_result_are_those_that_were_used(monkeypatch, share, used, expected):
    """Not all of its share: as many as can share the batches of an update, or none."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: number)
    assert hardware(share, used)["gpus"] == expected
