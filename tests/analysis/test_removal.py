"""``prune --remove`` writes smaller checkpoints; their outputs equal those of zeroed heads."""

import json
import re
from argparse import Namespace

import pytest
import torch

from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.ablation import run_model, sites_of
from diverse_mha.evaluation.aligner import Aligner
from diverse_mha.evaluation.models import open_models

pytestmark = pytest.mark.integration


def prune(checkpoint, data, output, *arguments):
    arguments = map(str, (checkpoint, data, "--output", output, *arguments, "--cpu"))
    assert run(["prune", *arguments]) == 0
    return output


def assert_same_outputs(one, other, data):
    """Assert that two checkpoints give the same features in float64; return their models."""
    models = [open_models(path, data, cpu=True, heads=True) for path in (one, other)]
    for sample in models[0].batches("valid"):
        with torch.no_grad():
            found, expected = (run_model(x.model.double(), sample) for x in models)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    return models


def parameters(path) -> int:
    return sum(x.numel() for x in torch.load(path, weights_only=True)["model"].values())


@pytest.mark.parametrize("share", ["0.3", "0.5"])
def test_removed_heads_give_the_outputs_of_zeroed_heads(share, checkpoint, data, tmp_path, capsys):
    selection = ("--share", share, "--keep-one")
    zeroed = prune(checkpoint, data, tmp_path / "zeroed.pt", *selection)
    before = capsys.readouterr().out.splitlines()
    small = prune(checkpoint, data, tmp_path / "small.pt", *selection, "--remove")
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:3] == before[1:], "--remove does not change the heads and losses printed"
    models = assert_same_outputs(small, zeroed, data)
    count = round(float(share) * 24)
    assert parameters(zeroed) - parameters(small) == count * (4 * 16 * 4 + 3 * 4)
    assert small.stat().st_size < zeroed.stat().st_size
    gone = [f"{c} {n}" for c, n in re.findall(r"(\w+) (\d\.\d)", printed[1])]
    (option,) = re.findall(r"^to continue training, add --pruned-heads '(.*)'$", printed[3])
    parts = [part.split() for part in option.split(", ")]
    assert sorted(gone) == sorted(f"{c} {n}" for c, *heads in parts for n in heads)
    assert torch.load(small, weights_only=True)["cfg"]["model"]["pruned_heads"] == option
    # Huge values of the zeroed heads do not change the output.
    state = torch.load(zeroed, weights_only=True)
    names = {module: name for name, module in models[1].model.named_modules()}
    for site, left in zip(sites_of(models[1].model), sites_of(models[0].model), strict=True):
        values = state["model"][f"{names[site.attention]}.v_proj.weight"].view(4, 4, -1)
        values[[n - 1 for n in left.numbers.pruned]] = 1e6
    torch.save(state, tmp_path / "huge.pt")
    assert_same_outputs(small, tmp_path / "huge.pt", data)


def test_remaining_heads_keep_their_original_numbers(checkpoint, data, tmp_path, capsys):
    first = prune(checkpoint, data, tmp_path / "1.pt", "--heads", 7, "--keep-one", "--remove")
    gone = set(re.findall(r"\w+ \d\.\d", capsys.readouterr().out.splitlines()[1]))
    output = tmp_path / "heads"
    arguments = ["--measures", "importance,importance-gradient,cka,svcca,jsd,entropy,disagreement"]
    command = [str(first), str(data), *arguments, "--output", str(output), "--cpu"]
    assert run(["analyze", *command, "--against", str(checkpoint)]) == 0
    capsys.readouterr()
    (model,) = json.loads((output / "scores.json").read_text())["models"]
    rows = (output / "heads.csv").read_text().splitlines()[1:]
    named = {"{1} {2}.{3}".format(*row.split(",")) for row in rows}
    every = {f"{c} {n}.{h}" for c in model["components"] for n in (1, 2) for h in (1, 2, 3, 4)}
    assert named == every - gone and len(gone) == 7
    for component, entry in model["components"].items():
        assert entry["heads"] == 4
        for number, layer in entry["layers"].items():
            missing = [h for h in (1, 2, 3, 4) if f"{component} {number}.{h}" in gone]
            assert (entry.get("pruned") or {}).get(number, []) == missing
            for name in ("importance", "importance-gradient", "entropy"):
                values = layer[name]["heads"]
                assert [h for h in (1, 2, 3, 4) if values[h - 1] is None] == missing
            for i, row in enumerate(layer["cka"]["pairs"], 1):
                assert [x is None for x in row] == [
                    i in missing or j in missing for j in (1, 2, 3, 4)
                ]
            pairs = {int(n) for pair in layer["svcca"]["coefficients"] for n in pair.split("-")}
            assert pairs.isdisjoint(missing)
    aligner = Aligner(open_models(first, data, cpu=True, heads=True), str(data))
    for layer in (1, 2):
        for head in (1, 2, 3, 4):
            name = f"{layer}.{head}"
            if f"cross {name}" in gone:
                with pytest.raises(UserError, match=f"--head {name}: .*; give auto, or LAYER.HEAD"):
                    aligner.choose("--head", name)
            else:
                aligner.choose("--head", name)
    # Prune further heads of the pruned model, by every ranking.
    for by in ("importance", "gradient", "similarity", "random"):
        more = ("--heads", 5, "--by", by, "--keep-one")
        zeroed = prune(first, data, tmp_path / f"{by}-0.pt", *more)
        second = prune(first, data, tmp_path / f"{by}.pt", *more, "--remove")
        printed = capsys.readouterr().out.splitlines()
        assert "without 5 of 17 heads" in printed[3]
        also = set(re.findall(r"\w+ \d\.\d", printed[4]))
        assert len(also - gone) == 5
        (model, _) = assert_same_outputs(second, zeroed, data)
        left = {
            f"{s.component} {s.number}.{h}" for s in sites_of(model.model) for h in s.numbers.kept
        }
        assert left == every - gone - also
        noted = torch.load(second, weights_only=True)["extra_state"]["pruned_heads"]
        assert set(noted) == gone | also and len(noted) == 12


@pytest.mark.parametrize("namespace", [False, True])
def test_a_pruned_stock_model_becomes_a_transformer_disagree(namespace, save, data, tmp_path):
    stock = save("stock", "transformer_iwslt_de_en")
    if namespace:  # older versions of fairseq saved a namespace instead of cfg
        state = torch.load(stock, weights_only=False)
        model, state["cfg"] = state["cfg"]["model"], None
        state["args"] = Namespace(**vars(model))
        assert state["args"].arch == "transformer_iwslt_de_en"
        stock = tmp_path / "old.pt"
        torch.save(state, stock)
    selection = ("--heads", 6, "--by", "gradient", "--keep-one")
    zeroed = prune(stock, data, tmp_path / "zeroed.pt", *selection)
    small = prune(stock, data, tmp_path / "small.pt", *selection, "--remove")
    models = assert_same_outputs(small, zeroed, data)
    assert models[0].architecture == "transformer_disagree"
    assert torch.load(small, weights_only=True)["cfg"]["task"]["_name"] == "translation"


def test_heads_of_language_models_and_classifiers_are_removed(save, data, pairs, tmp_path):
    selection = ("--heads", 3, "--by", "gradient", "--keep-one")
    for name, arch, task, folder in (
        ("lm", "transformer_lm_disagree", "language_modeling", data),
        ("stock-lm", "transformer_lm", "language_modeling", data),
        ("classifier", "sentence_classifier", "sentence_classification", pairs),
    ):
        whole = save(name, arch, task=task, data=folder)
        zeroed = prune(whole, folder, tmp_path / f"{name}-0.pt", *selection)
        small = prune(whole, folder, tmp_path / f"{name}.pt", *selection, "--remove")
        assert_same_outputs(small, zeroed, folder)


def test_heads_that_cannot_be_removed_are_refused(save, checkpoint, data, tmp_path):
    coda = save("coda", "transformer_coda")
    output = tmp_path / "out.pt"
    for arguments, message in (
        (
            (coda, data, "--heads", 1, "--remove"),
            "--logits mlp ties heads of encoder layer 1 to others; leave out --remove",
        ),
        (
            (checkpoint, data, "--heads", 24, "--by", "random", "--remove"),
            "--remove: no head is left in encoder layer 1; add --keep-one",
        ),
        (
            (checkpoint, data, "--curve", "0,0.5", "--remove"),
            "--remove has no effect with --curve; give --share or --heads",
        ),
    ):
        with pytest.raises(UserError, match=message):
            run(["prune", *map(str, arguments), "--output", str(output), "--cpu"])
        assert not output.exists()
