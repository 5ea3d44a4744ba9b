"""The examples run on small random models of the transformers library."""

import importlib.util
import os
import subprocess

import pytest
import torch

from tests import warm
from tests.docs.blocks import ROOT

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example", ROOT / "examples/hugging_face.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marian():
    config = transformers.MarianConfig(
        vocab_size=20, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=16, pad_token_id=1,
        decoder_start_token_id=1, max_position_embeddings=16,
    )  # fmt: skip
    return transformers.MarianMTModel(config), {"self_attn", "encoder_attn"}


def bert():
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=16, max_position_embeddings=16,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config), {"attention"}


@pytest.mark.parametrize("build", [marian, bert])
def test_hugging_face_example_measures_all_heads_of_a_model(build, example):
    torch.manual_seed(1)
    model, kinds = build()
    model.eval()
    words = [torch.randint(3, 20, (1, length)) for length in (5, 7)]
    batches = [{"input_ids": line, "labels": line} for line in words]
    measured = list(example.measure(model, batches))
    alike = {name: value for name, value, _ in measured}
    rises = {name: heads for name, _, heads in measured}
    assert {name.rpartition(".")[2] for name in alike} == kinds and alike.keys() == rises.keys()
    assert all(0 < value < 1 for value in alike.values())
    # Measuring leaves the weights unchanged. A head's importance is the rise of the loss in a
    # forward pass without the head.
    assert list(example.measure(model, batches)) == measured
    name = next(iter(rises))
    assert all(len(heads) == 4 for heads in rises.values())
    _, projection, _ = next(example.projections(model))
    silent = projection.register_forward_pre_hook(
        lambda _, args: (torch.cat([args[0][..., :12], 0 * args[0][..., 12:]], dim=-1),)
    )
    with torch.no_grad():
        without = sum(float(model(**batch).loss) for batch in batches) / 2
        silent.remove()
        before = sum(float(model(**batch).loss) for batch in batches) / 2
    assert rises[name][3] == pytest.approx(without - before, abs=1e-6)


@pytest.mark.parametrize("name", ["hugging_face", "bertviz_view"])
def test_an_example_has_help_and_reports_missing_arguments(name):
    python = warm.server()
    command = [python.python, ROOT / f"examples/{name}.py"]
    options = {"capture_output": True, "text": True, "env": os.environ | python.variables}
    shown = subprocess.run([*command, "--help"], **options)
    assert shown.returncode == 0 and f"python examples/{name}.py MODEL" in shown.stdout
    wrong = subprocess.run(command, **options)
    assert wrong.returncode == 1 and f"python examples/{name}.py MODEL" in wrong.stderr
