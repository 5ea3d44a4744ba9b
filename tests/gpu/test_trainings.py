"""Short trainings through fairseq's own command: resumed, and in half precision."""

import os
from functools import partial

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train as fairseq_train

from tests.gpu.device import MARKS, ON_GPU, distance
from tests.reliability import resume, runs
from tests.reliability.children import Child

pytestmark = MARKS
SECONDS = 300  # for a training of a few updates
HALF = ["--fp16"] if ON_GPU else runs.HALF["fp16"]
ARCHITECTURES = list(runs.RUNS)


def train(words: list[str], deterministic: bool) -> None:
    """Train as ``fairseq-train`` does, in a process of its own."""
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        # Operations without such a kernel warn; whether they matter is what is tested.
        torch.use_deterministic_algorithms(True, warn_only=True)
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    distributed_utils.call_main(convert_namespace_to_omegaconf(args), fairseq_train.main)


def start(arch, data, folder, *more, deterministic=True) -> Child:
    # In one process, however many GPUs there are, unless told otherwise.
    words = runs.words(arch, data, folder, "--distributed-world-size", 1, *more)
    if ON_GPU:
        words.remove("--cpu")
    return Child(train, words, deterministic)


def finish(child: Child) -> None:
    code, said = child.result(SECONDS)
    assert code == 0, said


def trained(arch, data, folder, *parts, **more) -> dict:
    """Train up to each of several updates, every time from the checkpoint of the time before."""
    for updates in parts:
        finish(start(arch, data, folder, "--max-update", updates, **more))
    return resume.load(folder / "checkpoint_last.pt")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_resumed_run_is_an_uninterrupted_one_bit_for_bit(arch, data, tmp_path, record_property):
    whole = trained(arch, data, tmp_path / "whole", resume.UPDATES)
    parts = trained(arch, data, tmp_path / "parts", 3, resume.UPDATES)
    if ON_GPU:  # on a CPU there is but one kind of kernels
        fast = partial(trained, arch, data, deterministic=False)
        models = [
            fast(tmp_path / "fast", resume.UPDATES)["model"],
            fast(tmp_path / "fast-parts", 3, resume.UPDATES)["model"],
        ]
        record_property("weights apart without deterministic kernels", distance(*models))
    record_property("weights apart", distance(parts["model"], whole["model"]))
    assert resume.differences(whole, parts) == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_half_precision_with_loss_scaling_to_the_end_of_an_epoch(
    arch, data, tmp_path, record_property
):
    losses = []
    for folder, precision in (("half", HALF), ("float32", [])):
        finish(start(arch, data, tmp_path / folder, "--max-epoch", 1, *precision))
        state = resume.load(tmp_path / folder / "checkpoint_last.pt")
        assert state["extra_state"]["train_iterator"]["epoch"] == 2
        assert state["optimizer_history"][-1]["num_updates"] > 0
        assert all(value.isfinite().all() for value in state["model"].values())
        losses.append(state["extra_state"]["val_loss"])
    record_property("validation loss in float16", losses[0])
    record_property("validation loss in float32", losses[1])
    assert losses[0] == pytest.approx(losses[1], rel=0.2)
