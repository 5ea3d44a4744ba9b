"""``diverse-mha prune``: the choice of heads, the pruned checkpoint and the curve."""

import csv
import json
import re
import shutil

import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset

from diverse_mha.analysis import pruning
from diverse_mha.analysis.pruning import _next
from diverse_mha.attention.sites import Head
from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.ablation import gated, run_model, sentence_losses, sites_of
from diverse_mha.evaluation.models import open_models


def test_less_important_head_of_the_most_similar_pair_is_pruned():
    one, two, three = ((Head("encoder", 1, n),) for n in (1, 2, 3))
    other = (Head("cross", 1, 1),)
    values = {one: 0.3, two: 0.2, three: 0.1, other: 0.01}
    pairs = {(one, two): 0.9, (one, three): 0.5, (two, three): 0.6}
    left, gone = [one, two, three, other], []
    while left:
        gone.append(_next(left, values, pairs, keep_one=False))
        left.remove(gone[-1])
    assert gone == [two, three, other, one], (
        "if no pair is left, the least important head goes first"
    )
    assert _next([one, two, other], values, {}, keep_one=True) == two


@pytest.mark.integration
@pytest.mark.parametrize("by", ["importance", "gradient", "similarity", "random"])
def test_pruned_heads_are_zero_and_the_loss_equals_that_with_masked_heads(
    by, checkpoint, data, tmp_path, capsys
):
    output = tmp_path / "pruned.pt"
    arguments = ["--share", "0.3", "--by", by, "--output", str(output), "--cpu"]
    assert run(["prune", str(checkpoint), str(data), *arguments]) == 0
    printed = capsys.readouterr().out
    heads = [
        Head(c, int(n), int(h))
        for c, n, h in re.findall(r"(\w+) (\d)\.(\d)", printed.splitlines()[1])
    ]
    assert len(set(heads)) == 7 == round(0.3 * 24)
    whole, pruned = (open_models(path, data, cpu=True, heads=True) for path in (checkpoint, output))
    kept = torch.load(output, weights_only=False)["extra_state"]["pruned_heads"]
    assert kept == list(map(str, heads))
    masks = []
    for site, original in zip(sites_of(pruned.model), sites_of(whole.model), strict=True):
        gone = [h.head - 1 for h in heads if h[:2] == (site.component, site.number)]
        columns = site.attention.out_proj.weight.view(16, 4, 4)
        assert [n for n in range(4) if not columns[:, n].any()] == sorted(gone)
        gates = torch.tensor([[float(n not in gone)] for n in range(4)])
        masks.append(gated(original, lambda x, gates=gates: x * gates))
    sample = next(iter(pruned.batches("valid")))
    with torch.no_grad():
        found = sentence_losses(pruned.model, sample, run_model(pruned.model, sample))[0]
        for mask in masks:
            mask.__enter__()
        masked = sentence_losses(whole.model, sample, run_model(whole.model, sample))[0]
    torch.testing.assert_close(found, masked, rtol=1e-5, atol=1e-5)
    assert re.search(r"loss on valid: \d\.\d{3} bits per token before, \d\.\d{3} after", printed)


@pytest.mark.integration
def test_keep_one_leaves_a_head_in_every_attention(checkpoint, data, tmp_path, capsys):
    output = str(tmp_path / "pruned.pt")
    arguments = ["prune", str(checkpoint), str(data), "--output", output, "--cpu", "--keep-one"]
    with pytest.raises(UserError, match="--heads 19: 19 of 24 heads; at most 18 can be pruned"):
        run([*arguments, "--heads", "19"])
    assert run([*arguments, "--heads", "18", "--steps", "3"]) == 0
    model = open_models(output, data, cpu=True, heads=True).model
    for site in sites_of(model):
        columns = site.attention.out_proj.weight.view(16, 4, 4)
        assert sum(bool(columns[:, n].any()) for n in range(4)) == 1


@pytest.mark.integration
def test_the_curve_has_an_interval_over_seeds(save, data, tmp_path, capsys):
    paths = [
        f"base={save('base-seed1', 'transformer_disagree')}",
        f"base={save('base-seed10', 'transformer_disagree')}",
        str(save("mine", "transformer_coda")),
    ]
    arguments = [
        "--curve",
        "0,0.5,1",
        "--score-subset",
        "valid",
        "--output",
        str(tmp_path),
        "--cpu",
    ]
    assert run(["prune", *paths, str(data), "--by", "gradient", *arguments]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Heads pruned by gradient: loss, bits per token on valid\nshare ")
    (spread,) = re.findall(r"^0\.5 +\d\.\d+ ± (0\.\d+) +\d\.\d+$", printed, re.M)
    assert float(spread) > 0
    with open(tmp_path / "curve.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["share"] for row in rows] == ["0.0", "0.5", "1.0"] * 3
    assert {row["model"] for row in rows} == {"base", "mine"}
    assert {f"curve.{end}" for end in ("svg", "png", "pdf")} <= {
        path.name for path in tmp_path.iterdir()
    }


@pytest.mark.integration
def test_a_copied_checkpoint_is_no_further_seed_of_a_curve(checkpoint, data, tmp_path, monkeypatch):
    copies = [tmp_path / name / "checkpoint_best.pt" for name in ("mine-seed1", "mine-seed2")]
    for path in copies:
        path.parent.mkdir()
        torch.save(torch.load(checkpoint) | {"comment": str(path)}, path)
    words = [str(data), "--curve", "0,1", "--score-subset", "valid", "--cpu", "--output"]
    monkeypatch.setattr(pruning, "_scored", lambda *_: pytest.fail("refuse before scoring"))
    with pytest.raises(UserError, match="seed2.*has the weights of .*seed1.*, so it is no further"):
        run(["prune", *map(str, copies), *words, str(tmp_path / "curve")])


@pytest.mark.integration
def test_losses_of_a_classifier_are_per_example(save, pairs, tmp_path, capsys):
    path = save("pairs", "sentence_classifier", task="sentence_classification", data=pairs)
    prune = ["prune", str(path), str(pairs), "--cpu", "--by", "random", "--output"]
    assert run([*prune, str(tmp_path / "pruned.pt"), "--heads", "1"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"loss on valid: \d\.\d{3} bits per example before, \d\.\d{3} after", printed)
    arguments = ["--curve", "0,1", "--score-subset", "valid"]
    assert run([*prune, str(tmp_path / "curve"), *arguments]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Heads pruned by random: loss, bits per example on valid\nshare ")
    assert "loss, bits per example" in (tmp_path / "curve/curve.svg").read_text(encoding="utf-8")


@pytest.mark.integration
@pytest.mark.filterwarnings(r"ignore:\s*'\w+' is validated against ConfigStore")
def test_bleu_of_the_curve_equals_that_of_evaluate(checkpoint, data, tmp_path, capsys):
    data = shutil.copytree(data, tmp_path / "corpus/bin")
    words = Dictionary.load(str(data / "dict.tgt.txt"))
    texts = indexed_dataset.make_dataset(str(data / "valid.src-tgt.tgt"), impl="mmap")
    raw = "".join(f"{words.string(texts[i])}\n" for i in range(len(texts)))
    for folder in ("raw", "tok"):
        (tmp_path / "corpus" / folder).mkdir()
        (tmp_path / "corpus" / folder / "valid.tgt").write_text(raw, encoding="utf-8")
    words = ["--score", "bleu", "--score-subset", "valid"]
    prune = ["prune", str(checkpoint), str(data), "--by", "random", "--cpu"]
    assert run([*prune, "--curve", "0.5", *words, "--output", str(tmp_path / "curve")]) == 0
    with open(tmp_path / "curve/curve.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (tmp_path / "curve/curve.png").stat().st_size > 0, (
        "fairseq's log handlers do not break the drawing"
    )
    pruned, result = str(tmp_path / "pruned.pt"), tmp_path / "scores.json"
    assert run([*prune, "--share", "0.5", "--output", pruned]) == 0
    options = ["--subset", "valid", "--output", str(result), "--cpu"]
    assert run(["evaluate", pruned, str(data), *options]) == 0
    assert json.loads(result.read_text())["sacrebleu"] == pytest.approx(float(row["bleu"]))


@pytest.mark.integration
def test_unprunable_models_and_invalid_counts_are_refused(save, checkpoint, data, tmp_path):
    routing = save("routing", "transformer_routing", "--aggregation-encoder-layers", "2")
    for words, message in (
        (
            (routing, data, "--heads", 1),
            "aggregates heads by RoutingAggregation in encoder layer 2",
        ),
        ((checkpoint, data), "one of the arguments --heads --share --curve is required"),
        ((checkpoint, checkpoint, data, "--heads", 1), "second checkpoint; give one"),
        ((checkpoint, data, "--heads", 1, "--score", "nll"), "--score nll: needs --curve"),
        ((checkpoint, data, "--heads", 1, "--seed", 2), "--seed 2 has no effect with --by imp"),
        (
            (checkpoint, data, "--curve", "0,0.9", "--keep-one"),
            "--curve 0.9: 22 of 24 heads; at most 18 can be pruned with --keep-one",
        ),
    ):
        with pytest.raises(UserError, match=message):
            run(["prune", *map(str, words), "--output", str(tmp_path / "out.pt")])
