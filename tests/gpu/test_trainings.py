"""Short trainings by fairseq-train: resumed, and in half precision."""

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
SECONDS = 300  # time limit of a training of a few updates
HALF = ["--fp16"] if ON_GPU else runs.HALF["fp16"]
ARCHITECTURES = list(runs.RUNS)


def train(words: list[str], deterministic: bool) -> None:
    """Run ``fairseq-train`` in a new process."""
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        # Operations without a deterministic kernel warn; the test shows whether they matter.
        torch.use_deterministic_algorithms(True, warn_only=True)
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    distributed_utils.call_main(convert_namespace_to_omegaconf(args), fairseq_train.main)


def start(arch, data, folder, *more, deterministic=True) -> Child:
    # By default, fairseq would start a process for each GPU.
    words = runs.words(arch, data, folder, "--distributed-world-size", 1, *more)
    if ON_GPU:
        words.remove("--cpu")
    return Child(train, words, deterministic)


def finish(child: Child) -> None:
    code, message = child.result(SECONDS)
    assert code == 0, message


def trained(arch, data, folder, *parts, **more) -> dict:
    """Train in several parts, each resumed from the checkpoint of the part before."""
    for updates in parts:
        finish(start(arch, data, folder, "--max-update", updates, **more))
    return resume.load(folder / "checkpoint_last.pt")


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_run(arch, data, tmp_path, record_property):
    whole = trained(arch, data, tmp_path / "whole", resume.UPDATES)
    parts = trained(arch, data, tmp_path / "parts", 3, resume.UPDATES)
    if ON_GPU:  # a CPU has no separate deterministic kernels
        fast = partial(trained, arch, data, deterministic=False)
        models = [
            fast(tmp_path / "fast", resume.UPDATES)["model"],
            fast(tmp_path / "fast-parts", 3, resume.UPDATES)["model"],
        ]
        record_property("weights apart without deterministic kernels", distance(*models))
    record_property("weights apart", distance(parts["model"], whole["model"]))
    assert resume.differences(whole, parts) == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_half_precision_with_loss_scaling_trains_and_validates(
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
