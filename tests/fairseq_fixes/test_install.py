"""Patches of fairseq: loading and saving, batches, training log, refused settings."""

import argparse
import functools
import importlib
import inspect
import logging
import os
import pickle
import resource
import sys
import zipfile
from contextlib import contextmanager, nullcontext
from unittest import mock

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import FairseqDataset, TokenBlockDataset
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks import TASK_REGISTRY, FairseqTask, LegacyFairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from diverse_mha import tasks  # noqa: F401 (registers)
from diverse_mha.common.errors import UserError
from diverse_mha.fairseq_fixes import checkpoints, log, same_run
from tests.fairseq_fixes.training import training


def test_safe_globals_run_no_code():
    listed = [i[0] if isinstance(i, tuple) else i for i in checkpoints.plain_classes()]
    functions = [item for item in listed if not isinstance(item, type)]
    names = {getattr(item, "__name__", str(item)) for item in functions}
    assert names <= {"_reconstruct", "scalar", "typing.Any", "Any"}


@pytest.mark.parametrize("folder", ["core", "_core"])
def test_plain_values_of_numpy_1_and_2_load(folder, tmp_path):
    state = {"args": argparse.Namespace(arch="transformer"), "model": {"weight": torch.ones(2)}}
    state |= {"best": np.float64(3.0), "bleu": np.array([1.5, 2.0])}
    torch.save(state, tmp_path / "new.pt")
    with (
        zipfile.ZipFile(tmp_path / "new.pt") as old,
        zipfile.ZipFile(tmp_path / "old.pt", "w") as renamed,
    ):
        for name in old.namelist():
            content = old.read(name)
            for spelling in (b"numpy._core.multiarray", b"numpy.core.multiarray"):
                content = content.replace(spelling, f"numpy.{folder}.multiarray".encode())
            renamed.writestr(name, content)
    loaded = torch.load(tmp_path / "old.pt", weights_only=True)
    assert loaded["best"] == 3.0 and loaded["bleu"][0] == 1.5
    assert loaded["args"].arch == "transformer"


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        ({"weight": torch.ones(2)}, "has no 'model'"),
        ([torch.ones(2)], "has no 'model'"),
        ({"model": {"weight": torch.ones(2)}}, "has no options"),
        ({"model": {"weight": torch.ones(2)}, "args": None, "cfg": None}, "has no options"),
    ],
    ids=["weights", "list", "model", "nothing"],
)
def test_a_file_without_model_or_options_is_named(content, missing, tmp_path):
    torch.save(content, tmp_path / "x.pt")
    message = f"x.pt: {missing}; give a checkpoint that fairseq-train wrote"
    for load in (
        checkpoint_utils.load_checkpoint_to_cpu,
        lambda path: checkpoint_utils.load_model_ensemble_and_task([path]),
    ):
        with pytest.raises(UserError, match=message):
            load(str(tmp_path / "x.pt"))


def test_complete_file_that_fails_to_load_is_not_called_truncated(tmp_path):
    state = {"model": {}, "args": argparse.Namespace(arch="transformer")}
    torch.save(state, tmp_path / "checkpoint.pt")
    with pytest.raises(
        ValueError,
        match="checkpoint.pt: KeyError: 'best_loss'; give a checkpoint that fairseq-train",
    ):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint.pt"))


@contextmanager
def full_disk(size: int):
    """Context manager: writing more than ``size`` bytes to a file fails in this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 1, 700, 20_000])
@pytest.mark.parametrize("copied", [False, True], ids=["saved", "copied"])
def test_full_disk_keeps_the_existing_checkpoint(copied, size, tmp_path):
    last, new = str(tmp_path / "checkpoint_last.pt"), str(tmp_path / "checkpoint1.pt")
    checkpoint_utils.torch_persistent_save({"weight": torch.zeros(10_000)}, last)
    checkpoint_utils.torch_persistent_save({"weight": torch.ones(10_000)}, new)
    with full_disk(size), pytest.raises(UserError) as refusal:
        if copied:
            checkpoint_utils.PathManager.copy(new, last, overwrite=True)
        else:
            checkpoint_utils.torch_persistent_save({"weight": torch.ones(10_000)}, last)
    assert str(refusal.value) == (
        f"checkpoint not saved: {last}: File too large; raise the limit of file sizes "
        "(ulimit -f) and run the same command again"
    )
    assert torch.load(last)["weight"].sum() == 0
    assert sorted(os.listdir(tmp_path)) == ["checkpoint1.pt", "checkpoint_last.pt"]


def test_copies_are_atomic(tmp_path):
    source, target = str(tmp_path / "checkpoint1.pt"), str(tmp_path / "checkpoint_last.pt")
    checkpoint_utils.torch_persistent_save({"weight": torch.ones(10_000)}, source)
    (tmp_path / "checkpoint_last.pt").write_bytes(b"of before")
    assert checkpoint_utils.PathManager.copy(source, target, overwrite=True)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == (
        tmp_path / "checkpoint1.pt"
    ).read_bytes()


def test_unrelated_errors_of_saving_keep_their_traceback(tmp_path):
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        checkpoint_utils.torch_persistent_save({"f": lambda: 0}, str(tmp_path / "checkpoint.pt"))
    assert not list(tmp_path.iterdir())


class Samples(FairseqDataset):
    """Data set whose samples have one token each."""

    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index

    def ordered_indices(self):
        return np.arange(self.count)

    def num_tokens_vec(self, indices):
        return np.ones(len(indices), dtype=np.int64)

    def collater(self, samples):
        return samples


@pytest.mark.parametrize("task", ["translation", "exact_translation", "sentence_classification"])
@pytest.mark.parametrize("count", [3, 8, 10])
def test_all_examples_are_read_and_other_batches_unchanged(task, count):
    """Fairseq's Trainer passes ``grouped_shuffling`` for the training subset only."""
    task = TASK_REGISTRY[task].__new__(TASK_REGISTRY[task])
    FairseqTask.__init__(task, None)
    settings = {"max_tokens": 100, "required_batch_size_multiple": 8}
    evaluated = task.get_batch_iterator(Samples(count), **settings)
    assert [len(batch) for batch in evaluated.frozen_batches] == [count]
    trained = task.get_batch_iterator(Samples(count), **settings, grouped_shuffling=False)
    rest = [count % 8] * (count % 8 > 0)
    assert [len(batch) for batch in trained.frozen_batches] == [8] * (count // 8) + rest
    assert len(trained.first_batch) == min(count, 8)


def test_trainer_passes_grouped_shuffling_only_in_training():
    training, validation = (
        inspect.getsource(method)
        for method in (Trainer.get_train_iterator, Trainer.get_valid_iterator)
    )
    assert "grouped_shuffling=" in training and "grouped_shuffling=" not in validation


@pytest.mark.parametrize(
    ("kind", "cure"),
    [
        (FairseqTask, "or leave it out"),
        (LegacyFairseqTask, "or leave it out"),
        (LanguageModelingTask, "or train with --tokens-per-sample 1100"),
    ],
)
def test_too_long_example_is_reported(kind, cure, monkeypatch):
    monkeypatch.setattr(kind, "__init__", FairseqTask.__init__)
    task, dataset = kind(argparse.Namespace(data="bin")), mock.Mock()
    task.datasets["valid"] = dataset
    dataset.filter_indices_by_size.return_value = np.arange(2), [2]
    of_text = kind is LanguageModelingTask
    dataset.size.return_value = np.int32(1100) if of_text else (np.int32(1100), np.int32(7))
    tokens = "1,100" if of_text else "1,100 and 7"
    message = (
        rf"bin: example 3 of valid has {tokens} tokens, more than the model reads "
        rf"\(max_positions=\(9, 9\)\); shorten it, {cure}"
    )
    with pytest.raises(UserError, match=message):
        task.filter_indices_by_size(np.arange(3), dataset, (9, 9))
    kept = task.filter_indices_by_size(np.arange(3), dataset, (9, 9), ignore_invalid_inputs=True)
    assert kept.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("validation", "culprit", "cure"),
    [
        (100, "--max-tokens 100", "--max-tokens 130 or --max-tokens-valid 130"),
        (90, "--max-tokens-valid 90", "--max-tokens-valid 130"),
        (None, "--max-tokens 100", "--max-tokens 130"),  # fairseq-generate
    ],
)
@pytest.mark.parametrize("vector", [True, False])
def test_example_longer_than_a_batch_is_reported(vector, validation, culprit, cure):
    tokens = np.array([7, 130, 9])
    task, dataset = FairseqTask(None), Samples(3)
    task.datasets["valid"] = dataset
    dataset.num_tokens = lambda index: tokens[index]
    dataset.num_tokens_vec = mock.Mock(side_effect=tokens.take if vector else NotImplementedError)
    call = functools.partial(task.get_batch_iterator, dataset, max_tokens=100)
    if validation:
        trainer = mock.Mock(task=task)
        trainer.cfg.common.seed = 1
        trainer.cfg.dataset = argparse.Namespace(
            max_tokens=100, max_tokens_valid=validation, batch_size_valid=None,
            skip_invalid_size_inputs_valid_test=False, required_batch_size_multiple=8,
            num_workers=0, data_buffer_size=0,
        )  # fmt: skip
        task.max_positions = lambda: None
        trainer.model.max_positions.return_value = None
        call = functools.partial(Trainer.get_valid_iterator, trainer, "valid")
    with pytest.raises(UserError, match=f"^{culprit}: example 2 of valid has 130 .*; give {cure}$"):
        call()


def test_validation_batches_are_the_same_every_time(monkeypatch):
    task = TASK_REGISTRY["exact_translation"].__new__(TASK_REGISTRY["exact_translation"])
    FairseqTask.__init__(task, argparse.Namespace(rebuild_batches=True))
    batches = task.get_batch_iterator(Samples(), max_tokens=4)
    assert not callable(batches.batch_sampler) and task.cfg.rebuild_batches
    batches = task.get_batch_iterator(Samples(), max_tokens=4, grouped_shuffling=False)
    assert callable(batches.batch_sampler)


@pytest.mark.parametrize(
    ("metric", "task", "message"),
    [
        ("bleu", {"eval_bleu": False}, "--best-checkpoint-metric bleu: needs --eval-bleu; add"),
        ("loss", {"_name": "masked_lm"}, "--task masked_lm is not supported"),
        ("bleu", {"_name": "exact_translation", "eval_bleu": True}, None),
    ],
)
def test_settings_that_would_fail_later_are_refused_before_training(
    metric, task, message, tmp_path
):
    config, trainer = training(tmp_path)
    config.best_checkpoint_metric, trainer.cfg.task = metric, argparse.Namespace(**task)
    expected = pytest.raises(ValueError, match=message) if message else nullcontext()
    with expected:
        checkpoint_utils.load_checkpoint(config, trainer)


def test_best_score_is_reset_between_trainings(tmp_path):
    from fairseq_cli.train import should_stop_early

    checkpoint_utils.save_checkpoint.best = should_stop_early.best = 1.0
    config, trainer = training(tmp_path)
    checkpoint_utils.load_checkpoint(config, trainer)
    assert not hasattr(checkpoint_utils.save_checkpoint, "best")
    assert not hasattr(should_stop_early, "best")
    trainer.get_criterion().begin_training.assert_called_once_with(trainer.get_model())


@pytest.mark.parametrize(
    ("updates", "epochs", "message"),
    [
        (201, 0, "to train: 101 updates, 2.0 epochs of 50 updates"),
        (0, 4, "to train: 100 updates, 2.0 epochs of 50 updates"),
        (120, 4, "to train: 20 updates, 0.4 epochs of 50 updates"),
        (0, 0, "to train: epochs of 50 updates; neither max update nor max epoch ends them"),
        (100, 4, "has all 100 updates: nothing is left to train"),
        (99, 0, "has all 99 updates: nothing is left to train"),
        (0, 2, "has all 2 epochs: nothing is left to train"),
    ],
)
def test_remaining_updates_are_logged_and_not_exceeded(updates, epochs, message, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    config, trainer = training(tmp_path)
    (tmp_path / "checkpoint_last.pt").touch()
    trainer.load_checkpoint.return_value = {"train_iterator": {"epoch": 3}}
    trainer.get_num_updates.return_value = 100
    wanted = trainer.cfg.optimization
    wanted.max_update, wanted.max_epoch = updates, epochs
    checkpoint_utils.load_checkpoint(config, trainer)
    ended = "nothing is left to train" in message
    assert (wanted.max_epoch == -1) == ended, "max_epoch = -1 skips the training loop"
    assert [message in line for line in caplog.messages].count(True) == 1
    assert not (ended and "to train:" in caplog.text), "one line says that nothing is left"


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        (1100, [("36 min", "1,095"), ("33 min", "1,000")]),
        (100, [("3 min", "95")]),
        (6, [("2 s", "1")]),
        (5, []),
    ],
)
def test_the_time_left_is_logged_after_5_and_100_updates(
    updates, expected, tmp_path, caplog, monkeypatch
):
    caplog.set_level(logging.INFO)
    config, trainer = training(tmp_path)
    trainer.cfg.optimization.max_update = updates
    clock = iter(range(0, 10_000, 2))
    monkeypatch.setattr(log.time, "monotonic", lambda: next(clock))
    step = trainer.train_step
    checkpoint_utils.load_checkpoint(config, trainer)
    for update in range(1, 120):
        trainer.get_num_updates.return_value = update
        trainer.train_step([])
    assert step.call_count == 119 and trainer.train_step is step
    assert "train_step" not in vars(trainer), "a cycle would keep the trainer's memory"
    logged = [line for line in caplog.messages if "left" in line]
    text = "2.00 s an update: about {} left for {} update{}"
    assert logged == [text.format(*one, "" if one[1] == "1" else "s") for one in expected]


@pytest.mark.parametrize(("before", "warned"), [(1, True), (2, False), (None, False)])
def test_batch_of_an_update_and_its_change_are_logged(before, warned, caplog):
    caplog.set_level(logging.INFO)

    def options(processes):
        return DictConfig(
            {
                "optimization": {"update_freq": [2, 3]},
                "distributed_training": {"distributed_world_size": processes},
                "dataset": {"max_tokens": 2048, "batch_size": None},
            }
        )

    log.say_batch(options(2), 1, before and options(before))
    messages = ["an update takes up to 8,192 tokens (2 processes, update_freq 2)"]
    if warned:
        messages.append(
            "until now, an update took up to 4,096 tokens (1 process, update_freq 2); "
            "the learning rate is not adapted"
        )
    assert caplog.messages == messages


def test_fp16_without_a_gpu_is_refused_before_writing(monkeypatch):
    from fairseq_cli.train import main

    common = {"cpu": False, "fp16": True, "memory_efficient_fp16": False}
    common |= {"fp16_no_flatten_grads": False}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="--fp16: needs a GPU; leave it out, or give --bf16"):
        distributed_utils.call_main(DictConfig({"common": common}), main)


def test_resumed_run_is_compared_with_its_checkpoint(tmp_path, monkeypatch):
    config, trainer = training(tmp_path)
    last, saved = str(tmp_path / "checkpoint_last.pt"), {"common": {"seed": 1}}
    read = [last]
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", lambda path: {"cfg": saved})

    def load(*_, **__):
        checkpoint_utils.load_checkpoint_to_cpu(read[0])

    trainer.load_checkpoint.side_effect = load
    compared = []
    monkeypatch.setattr(same_run, "check_same_run", lambda *args: compared.append(args[:3]) or [])
    checkpoint_utils.load_checkpoint(config, trainer)
    assert compared == [(last, saved, trainer.cfg)]
    read[0] = "another.pt"  # read by another program, such as an evaluation
    checkpoint_utils.load_checkpoint(config, trainer)
    assert len(compared) == 1


def test_blocks_of_a_model_trained_with_plasma_are_read_without_plasma():
    sentences = [torch.arange(n) for n in (3, 5, 2)]
    blocks, same = (
        TokenBlockDataset(
            sentences, np.array([3, 5, 2]), 4, pad=0, eos=1, break_mode="none",
            use_plasma_view=plasma, split_path="valid", plasma_path="nowhere",
        )
        for plasma in (True, False)
    )  # fmt: skip
    assert [block.tolist() for block in blocks] == [block.tolist() for block in same]


def test_validation_parses_its_options_without_a_task(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq-validate", "bin", "--path", "a.pt"])
    parsed = options.parse_args_and_arch(options.get_validation_parser())
    assert (parsed.task, parsed.data) == ("translation", "bin")
    given = options.parse_args_and_arch(options.get_validation_parser(), suppress_defaults=True)
    assert not hasattr(given, "task"), "only given options override the checkpoint's"


@pytest.mark.parametrize(
    ("arch", "task", "wanted"),
    [
        ("transformer_lm_coda_tiny", "translation", "exact_language_modeling"),
        ("transformer_lm_disagree", "sentence_classification", "exact_language_modeling"),
        ("transformer_coda", "exact_language_modeling", "exact_translation"),
        ("sentence_classifier", "language_modeling", "sentence_classification"),
    ],
)
def test_model_on_another_task_is_refused(arch, task, wanted):
    args = ["bin", "--arch", arch, "--task", task]
    message = f"^--arch {arch}: does not go with --task {task}; give --task {wanted}$"
    with pytest.raises(ValueError, match=message):
        options.parse_args_and_arch(options.get_training_parser(task), args)
    args = ["bin", "--arch", arch, "--task", wanted]
    assert options.parse_args_and_arch(options.get_training_parser(wanted), args).task == wanted


@pytest.mark.parametrize("kept", [False, True])
def test_cudnn_attention_is_disabled_by_default(kept, monkeypatch):
    name = "diverse_mha.fairseq_fixes.speed"
    before = torch.backends.cuda.cudnn_sdp_enabled()
    monkeypatch.setenv("DIVERSE_MHA_CUDNN_ATTENTION", str(int(kept)))
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        importlib.reload(importlib.import_module(name))
        assert torch.backends.cuda.cudnn_sdp_enabled() == kept
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    assert not before
