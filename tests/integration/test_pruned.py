"""Models whose pruned heads were removed: translating, fine-tuning and resuming."""

import re

import pytest
import torch

from tests.integration.conftest import PLUGIN, run, train

pytestmark = pytest.mark.integration
MODEL = "checkpoint_last.pt"


@pytest.fixture(scope="module")
def pruned(trained, data, tmp_path_factory):
    """Folder with ``zeroed.pt`` and ``small.pt`` (heads removed), and its --pruned-heads."""
    folder = tmp_path_factory.mktemp("pruned")
    command = ["diverse_mha.cli", "prune", trained / MODEL, data, "--heads", 4, "--keep-one"]
    for name, more in (("zeroed", []), ("small", ["--remove"])):
        done = run(*command, "--output", folder / f"{name}.pt", "--cpu", *more)
    (option,) = re.findall(r"--pruned-heads '(.*)'", done.stdout)
    return folder, option


def hypotheses(path, data, *options) -> list[str]:
    """Return the sorted hypothesis lines (with scores) that fairseq-generate prints."""
    command = ["fairseq_cli.generate", data, "--path", path, "--user-dir", PLUGIN, "--cpu"]
    printed = run(*command, "--beam", 3, *options).stdout
    return sorted(re.findall(r"^H-\d+\t.*$", printed, re.M))


def test_removed_and_zeroed_heads_give_the_same_translations(pruned, data):
    folder, _ = pruned
    options = ["--print-alignment", "hard"]  # alignments come from the mean of the remaining heads
    texts, scores = [], []
    for name in ("small", "zeroed"):
        lines = [x.split("\t") for x in hypotheses(folder / f"{name}.pt", data, *options)]
        texts.append([(number, text) for number, *_, text in lines])
        scores.append([float(line[1]) for line in lines])
    assert texts[0] == texts[1] and len(texts[0]) == 10
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_a_model_whose_pruned_heads_were_removed_fine_tunes_and_resumes(pruned, data, tmp_path):
    folder, option = pruned
    start = ["--finetune-from-model", folder / "small.pt", "--pruned-heads", option]
    terms = ["--disagreement", "output", "--hsic-weight", "1e-3"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(data, whole, *start, *terms, "--max-epoch", 3)
    train(data, parts, *start, *terms, "--max-epoch", 2)
    train(data, parts, *start, *terms, "--max-epoch", 3)
    states = [torch.load(x / MODEL, weights_only=True) for x in (whole, parts)]
    assert states[0]["cfg"]["model"]["pruned_heads"] == option
    before = torch.load(folder / "small.pt", weights_only=True)["model"]
    for name, value in states[0]["model"].items():
        assert torch.equal(value, states[1]["model"][name]) and value.shape == before[name].shape
    name = "encoder.layers.0.fc1.weight"
    assert not torch.equal(states[0]["model"][name], before[name])
    done = train(data, parts, *terms, "--max-epoch", 4, check=False)
    assert (
        f"{MODEL}: has other pruned heads than the model; give --pruned-heads '{option}'"
        in done.stderr
    )


def test_a_missing_or_wrong_pruned_heads_option_is_reported(pruned, data, trained, tmp_path):
    folder, option = pruned
    for start, words, cure in (
        ("--finetune-from-model", [], f"give --pruned-heads '{option}'"),
        ("--restore-file", ["--pruned-heads", "encoder 1.1"], f"give --pruned-heads '{option}'"),
    ):
        done = train(data, tmp_path, start, folder / "small.pt", *words, check=False)
        (line,) = [x for x in done.stderr.splitlines() if x.startswith("error: ")]
        assert line.endswith(f"small.pt: has other pruned heads than the model; {cure}")
    words = ["--finetune-from-model", trained / MODEL, "--pruned-heads", option]
    done = train(data, tmp_path, *words, check=False)
    assert (
        f"{MODEL}: has other pruned heads than the model; leave out --pruned-heads" in done.stderr
    )
