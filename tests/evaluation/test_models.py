"""Errors of checkpoints that do not fit the data or the command."""

import argparse
from types import SimpleNamespace

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq.tasks.translation import TranslationTask

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.models import Loaded, check_same_blocks, fitting
from diverse_mha.evaluation.states import check_task, check_translates, open_state


def test_another_vocabulary_is_refused_with_both_sizes():
    module = torch.nn.Embedding(6, 2)
    message = r"bin: does not fit x.pt \(.* size mismatch for weight: .*9, 2.*6, 2.*give the data"
    with pytest.raises(UserError, match=message), fitting("x.pt", "bin"):
        module.load_state_dict({"weight": torch.zeros(9, 2)})


def test_unrelated_errors_are_not_reported_as_data_that_does_not_fit(tmp_path):
    with pytest.raises(RuntimeError, match="out of luck"), fitting("x.pt", tmp_path):
        raise RuntimeError("out of luck")


def test_data_without_a_language_pair_is_reported(tmp_path):
    arguments = ["--encoder-layers", "1"]
    args = fairseq_options.parse_args_and_arch(
        fairseq_options.get_training_parser(),
        [str(tmp_path), "--task", "translation", "--arch", "transformer_tiny", *arguments],
    )
    (tmp_path / "dict.txt").write_text("a 1\n")
    with pytest.raises(UserError, match=r"does not fit x.pt \(Could not infer language pair"):
        with fitting("x.pt", tmp_path):
            TranslationTask.setup_task(args)


def test_task_of_older_checkpoints_is_read_from_args():
    args = argparse.Namespace(task="language_modeling", tokens_per_sample=32)
    assert check_task("x.pt", {"args": args}, "language_modeling")["tokens_per_sample"] == 32
    with pytest.raises(UserError, match="x.pt: trained on the task None, not language_modeling"):
        check_task("x.pt", {}, "language_modeling")


def test_a_model_without_encoder_is_refused_by_evaluate(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"model": {"decoder.embed_tokens.weight": torch.ones(9, 2)}}, path)
    with pytest.raises(UserError, match=r"is not a translation model \(.*; give one, .*-lm"):
        check_translates(str(path), open_state(path))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_first_parameter_with_nan_is_reported(bad, tmp_path):
    spoilt = torch.tensor([1.0, bad])
    model = {"version": torch.tensor([3]), "a": torch.ones(2), "b": spoilt.half(), "c": spoilt}
    torch.save({"model": model}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="x.pt: parameter b holds NaN or infinity; take"):
        open_state(tmp_path / "x.pt", finite=True)
    open_state(tmp_path / "x.pt")  # only metadata: weights are not checked


def loaded(path, **options):
    return Loaded(path, "transformer_lm", [], SimpleNamespace(cfg=SimpleNamespace(**options)))


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"sample_break_mode": "eos"},
            "b.pt: trained with --sample-break-mode eos, but a.pt with none, .* one model at a",
        ),
        ({"add_bos_token": True}, "b.pt: trained with --add-bos-token True, but a.pt with none"),
        ({"tokens_per_sample": 50}, "b.pt: trained with --tokens-per-sample 50, but a.pt with 16"),
    ],
)
def test_language_models_with_different_blocks_are_refused(options, message):
    first = loaded("a.pt", tokens_per_sample=16, sample_break_mode="none")
    plain = {"tokens_per_sample": 16, "sample_break_mode": None, "add_bos_token": False}
    check_same_blocks([loaded("translation.pt", source_lang="de"), first, loaded("b.pt", **plain)])
    with pytest.raises(UserError, match=message):
        check_same_blocks([first, loaded("b.pt", **plain | options)])
