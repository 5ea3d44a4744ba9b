"""Arrays of every layer and head for given sentences."""

import argparse
import json
import re

import numpy as np
import pytest
import torch

import diverse_mha
from diverse_mha import cli
from diverse_mha.analysis.view import TOKENS
from diverse_mha.attention import STATE_NAMES
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT

SENTENCES = ["0 1 2 3", "4 5"]


def test_states_of_forced_translations_equal_a_forward_pass_without_padding(checkpoint, data):
    model = diverse_mha.load(checkpoint, data, cpu=True)
    run = model.run(SENTENCES, target=["3 2", "5 4 好"])
    assert run.source_tokens == [["0", "1", "2", "3", "</s>"], ["4", "5", "</s>"]]
    assert run.target_tokens == [["3", "2", "</s>"], ["5", "4", "好", "</s>"]]
    assert set(run.heads) == {"encoder", "cross", "decoder"}
    cross = run.heads["cross"]
    assert [tuple(x.shape) for x in cross.weights] == [(2, 4, 4, 5)] * 2
    for name in STATE_NAMES:
        assert len(getattr(cross, name)) == 2
    assert cross.query_padding_mask.tolist()[0] == [False, False, False, True]
    assert cross.key_padding_mask.tolist()[1] == [False, False, False, True, True]

    # Expected states: a forward pass of the second sentence alone, without padding.
    task = model.loaded.task
    encode = task.source_dictionary.encode_line
    source, target = (encode(t, add_if_not_exist=False).long()[None] for t in ("4 5", "5 4 好"))
    with torch.no_grad():
        _, extra = model.loaded.model(
            source, torch.tensor([3]), target.roll(1), return_head_states=("weights", "outputs")
        )
    for component, keys, queries in (("encoder", 3, 3), ("cross", 3, 4), ("decoder", 4, 4)):
        for layer in range(2):
            expected = extra["head_states"][component][layer]
            heads = run.heads[component]
            weights = heads.weights[layer][1:, :, :queries, :keys]
            torch.testing.assert_close(weights, expected.weights, atol=1e-6, rtol=1e-5)
            outputs = heads.outputs[layer][1:, :, :queries]
            torch.testing.assert_close(outputs, expected.outputs, atol=1e-6, rtol=1e-5)


def test_without_targets_the_models_own_translations_are_used(checkpoint, data):
    model = diverse_mha.load(checkpoint, data, cpu=True)
    own = model.run(SENTENCES, states=("weights",), beam=2)
    assert own.heads["cross"].outputs is None
    targets = [" ".join(tokens[:-1]) for tokens in own.target_tokens]
    assert all(tokens[-1] == "</s>" for tokens in own.target_tokens)
    forced = model.run(SENTENCES, target=targets, states=("weights",))
    assert forced.target_tokens == own.target_tokens
    for component, heads in own.heads.items():
        assert torch.equal(heads.weights[1], forced.heads[component].weights[1])


def test_language_models_and_classifiers_return_arrays(save, data, pairs):
    lm = save("lm", "transformer_lm_disagree", task="language_modeling")
    run = diverse_mha.load(lm, data, cpu=True).run(SENTENCES)
    assert run.source_tokens[0] == ["</s>", "0", "1", "2", "3"]
    assert run.target_tokens[1] == ["4", "5", "</s>"]
    assert [tuple(x.shape) for x in run.heads["decoder"].weights] == [(2, 4, 5, 5)] * 2

    path = save("class", "sentence_classifier", task="sentence_classification", data=pairs)
    model = diverse_mha.load(path, pairs, cpu=True)
    run = model.run([("0 1", "2"), ("3", "4 5 6")])
    assert run.source_tokens[1] == ["2", "</s>"] and run.target_tokens is None
    assert tuple(run.heads["encoder"].outputs[0].shape) == (4, 4, 4, 4)
    with pytest.raises(UserError, match="the model classifies pairs; give tuples of 2"):
        model.run(SENTENCES)
    with pytest.raises(UserError, match="target: is for translation models"):
        model.run([("0", "1")], target=["2"])


def test_saved_arrays_equal_the_arrays_in_memory(checkpoint, data, tmp_path):
    run = diverse_mha.load(checkpoint, data, cpu=True).run(SENTENCES, target=SENTENCES)
    np.savez(tmp_path / "heads.npz", **run.arrays())
    arrays = np.load(tmp_path / "heads.npz")  # np.load refuses pickled objects
    assert arrays["cross.weights.2"].dtype == np.float32
    np.testing.assert_array_equal(arrays["cross.weights.2"], run.heads["cross"].weights[1].numpy())
    assert arrays["encoder.key_padding_mask"].tolist() == [[False] * 5, [False] * 3 + [True] * 2]
    assert arrays["source_tokens"].tolist()[1] == ["4", "5", "</s>", "", ""]
    assert len([name for name in arrays if name.startswith("cross.")]) == 6 * 2 + 2


WRONG = {
    "give a list of one or more sentences": ("0 1", {}),
    "sentence 2: is empty; leave it out": (["0", " "], {}),
    "sentence 1: 2,001 subwords, but the model reads at most 1,024": (["0 " * 2000], {}),
    "target: give a list of translations": (["0"], {"target": "0"}),
    "target: has 1 texts for 2 sentences; give one for each": (SENTENCES, {"target": ["0"]}),
    "head states: unknown 'weigths'": (SENTENCES, {"states": ("weigths",)}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_sentences_are_reported(message, checkpoint, data):
    sentences, options = WRONG[message]
    with pytest.raises(ValueError, match=message):
        diverse_mha.load(checkpoint, data, cpu=True).run(sentences, **options)


@pytest.mark.parametrize("arch", ["transformer", "transformer_disagree"])
def test_an_option_that_is_none_is_named_with_its_checkpoint(arch, save, data, tmp_path):
    state = torch.load(save(f"none-{arch}", arch), weights_only=True)
    options = state["cfg"]["model"]
    options = state["cfg"]["model"] = argparse.Namespace(**_as_dict(options))
    options.encoder_layers = options.encoder_embed_path = None  # the latter is its default
    torch.save(state, tmp_path / "old.pt")
    message = r"old.pt: its option encoder_layers None cannot be used: "
    with pytest.raises(UserError, match=message):
        diverse_mha.load(tmp_path / "old.pt", data, cpu=True)


def _as_dict(options):
    return vars(options) if isinstance(options, argparse.Namespace) else options


def test_two_checkpoints_in_the_place_of_one_are_named(checkpoint, data):
    for pair in (f"{checkpoint}:{checkpoint}", f"{checkpoint}:gone.pt"):
        with pytest.raises(UserError, match="names several checkpoints; give one"):
            diverse_mha.load(pair, data, cpu=True)


def run_analyze(*arguments):
    return cli.run(["analyze", *map(str, arguments), "--cpu", "--measures", "entropy"])


def test_the_command_saves_arrays_and_shows_the_sentences_of_a_file(checkpoint, data, tmp_path):
    lines, file = tmp_path / "text", tmp_path / "heads.npz"
    lines.write_text("0 1 2 3\n4 5\n", encoding="utf-8")
    arguments = [checkpoint, data, "--sentences", lines, "--save-heads", file]
    assert run_analyze(*arguments, "--output", tmp_path / "out") == 0
    arrays = np.load(file)
    own = diverse_mha.load(checkpoint, data, cpu=True).run(SENTENCES)
    assert arrays["target_tokens"].tolist() == own.arrays()["target_tokens"].tolist()
    np.testing.assert_array_equal(arrays["cross.weights.1"], own.heads["cross"].weights[0].numpy())
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    view = page.partition('id="view-data">')[2].partition("</script>")[0]
    shown = json.loads(view)["models"][0]["sentences"]
    assert [s["components"]["encoder"]["keys"] for s in shown] == own.source_tokens
    targets = [tokens[:TOKENS] for tokens in own.target_tokens]
    assert [s["components"]["cross"]["queries"] for s in shown] == targets
    assert run_analyze(*arguments) == 0  # the command replaces a file that it wrote itself

    lines.write_text("0 1\t2\n3\t4 5\n", encoding="utf-8")
    assert run_analyze(*arguments) == 0
    assert np.load(file)["target_tokens"].tolist() == [["2", "</s>", ""], ["4", "5", "</s>"]]


REFUSED = {
    "needs sentences; give --sentences FILE": ["--save-heads", "heads.npz"],
    "heads: give a name that ends in .npz": ["--save-heads", "heads"],
    "--sentences 0: give 1 or more": ["--sentences", "0", "--output", "out"],
    "gone: no such file": ["--sentences", "gone", "--output", "out"],
    "holds no sentence": ["--sentences", "empty", "--save-heads", "heads.npz"],
    "some lines have a tab, others not": ["--sentences", "mixed", "--save-heads", "heads.npz"],
    "notes.npz: exists and was not written by this command": [
        "--sentences",
        "good",
        "--save-heads",
        "notes.npz",
    ],
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_sentences_and_files_are_refused(message, checkpoint, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "empty": "\n",
        "mixed": "0\t1\n2\n",
        "good": "0\n",
        "notes.npz": "x",
    }.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        run_analyze(checkpoint, data, *REFUSED[message])
    assert (tmp_path / "notes.npz").read_text() == "x" and not (tmp_path / "out").exists()


def test_code_on_the_arrays_page_prints_the_documented_shape(checkpoint, data, capsys):
    page = (ROOT / "docs/arrays.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    code = code.replace("runs/mine/checkpoint_best.pt", str(checkpoint))
    exec(code.replace("data/mine/bin", str(data)), {})
    printed = capsys.readouterr().out
    assert "torch.Size([2, 4," in printed and len(code.splitlines()) <= 8
