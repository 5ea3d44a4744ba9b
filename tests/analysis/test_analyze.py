"""``diverse-mha analyze``, from checkpoints and data to tables and files."""

import csv
import hashlib
import json
import math
import re
import shutil

import numpy as np
import pytest
import torch

from diverse_mha.analysis import analyze
from diverse_mha.analysis.sites import Selection
from diverse_mha.cli import run
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.models import open_models
from diverse_mha.evaluation.opener import open_heads
from diverse_mha.training.quickstart import heads_alike

pytestmark = pytest.mark.integration

COMPONENTS = ["encoder", "cross", "decoder"]


@pytest.fixture
def scores(tmp_path):
    """Function that runs analyze with arguments and returns the written scores."""

    def measure(*arguments) -> dict:
        path = tmp_path / "there" / "scores.json"
        assert run(["analyze", *map(str, arguments), "--cpu", "--output", str(path)]) == 0
        assert [p.name for p in path.parent.iterdir()] == ["scores.json"]
        return json.loads(path.read_text())

    return measure


def test_table_has_every_component_and_layer(checkpoint, data, capsys):
    assert run(["analyze", str(checkpoint), str(data), "--cpu"]) == 0
    out = capsys.readouterr().out
    for component in COMPONENTS:
        assert re.search(rf"^{component} +1 ", out, re.M), component
    assert len(re.findall(r"^ +2 ", out, re.M)) == 3 * 3, (
        "similarity, sharpness and scores each have a table"
    )
    for heading in ("SVCCA", "SVCCA top", "CKA", "JSD", "Sub.", "Out.", "Out. i≠j"):
        assert heading in out


def test_results_survive_a_deleted_checkpoint_and_a_closed_pipe(
    checkpoint, data, tmp_path, monkeypatch, capsys
):
    """A running training removes old checkpoints, and ``| head`` closes the pipe early."""
    path = shutil.copy(checkpoint, tmp_path / "checkpoint3.pt")
    measure, seen = analyze.analyze, []

    def analyze_and_remove(*args, **options):
        path.unlink()
        return measure(*args, **options)

    def close(*args):
        raise BrokenPipeError

    arguments = ["--cpu", "--layers", "last", "--output", str(tmp_path / "out")]
    monkeypatch.setattr(analyze, "write_figures", lambda *_: seen.append(capsys.readouterr().out))
    assert run(["analyze", str(checkpoint), str(data), *arguments]) == 0
    assert "\nSharpness of attention, means over heads\n" in seen[0], (
        "tables are printed before figures are drawn"
    )
    (tmp_path / "out/report.html").write_text("of other models")
    monkeypatch.setattr(analyze, "analyze", analyze_and_remove)
    monkeypatch.setattr(analyze, "format_tables", close)
    with pytest.raises(BrokenPipeError):
        run(["analyze", str(path), str(data), *arguments])
    assert len(seen) == 2 and not (tmp_path / "out/report.html").exists()
    written = json.loads((tmp_path / "out/scores.json").read_text())["models"][0]
    assert written["sha256"] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    with open(tmp_path / "out/heads.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 4 and 0 < float(rows[0]["entropy"]) < math.log(13)


def test_the_quickstart_measures_the_mean_cka_over_layers(checkpoint, data, scores):
    found = scores(checkpoint, data)["models"][0]
    layers = {name: found["components"][name]["layers"].values() for name in COMPONENTS}
    means = {c: sum(one["cka"]["mean"] for one in layers[c]) / len(layers[c]) for c in COMPONENTS}
    assert heads_alike(str(checkpoint), str(data), "valid") == pytest.approx(means)
    assert found["sentences"] == 40 and list(found["components"]) == COMPONENTS


@pytest.mark.parametrize(
    "arch,task,twin",
    [
        ("transformer", "translation", "transformer_disagree"),
        ("transformer_lm", "language_modeling", "transformer_lm_disagree"),
        ("transformer_lm_gpt", "language_modeling", "transformer_lm_disagree"),
    ],
)
def test_stock_checkpoint_gives_the_numbers_of_our_equivalent_architecture(
    arch, task, twin, save, data, scores
):
    options = ["--share-decoder-input-output-embed"]
    if task == "language_modeling":
        options = ["--tokens-per-sample", "32", "--activation-fn", "gelu"]
        if arch.endswith("_gpt"):  # transformer_lm_gpt is pre-norm and has these dimensions
            options += ["--decoder-normalize-before"]
            options += ["--decoder-input-dim", "16", "--decoder-output-dim", "16"]
    stock = save("stock", arch, *options, task=task)
    ours = save("ours", twin, *options, task=task)
    state = torch.load(ours, weights_only=False)
    state["model"] = torch.load(stock, weights_only=False)["model"]
    torch.save(state, ours)
    first, second = (scores(path, data)["models"][0] for path in (stock, ours))
    assert first["components"] == second["components"]
    assert first["architecture"].startswith(arch.removesuffix("_gpt"))


def test_a_pair_classifier_counts_the_encoder_positions_of_both_sentences(
    save, pairs, data, scores
):
    task = "sentence_classification"
    path = save("pairs", "sentence_classifier", task=task, data=pairs)
    found = scores(path, pairs)["models"][0]
    assert list(found["components"]) == ["encoder"] and found["sentences"] == 40
    single = save("single-text", "transformer_disagree")
    texts = scores(single, data)["models"][0]
    # Each of the two inputs has all source sentences.
    positions = texts["components"]["encoder"]["positions"]
    assert found["components"]["encoder"]["positions"] == 2 * positions
    with pytest.raises(UserError, match="holds no dict"):
        run(["analyze", str(single), str(pairs.parent), "--cpu"])


def test_option_against_compares_several_models_with_a_single_head_model(
    save, checkpoint, data, scores, capsys
):
    single = save("single", "transformer_disagree", heads=1)
    other = save("other", "transformer_routing", "--aggregation-encoder-layers", "1")
    arguments = ["analyze", str(checkpoint), str(other), str(data), "--against", str(single)]
    assert run([*arguments, "--cpu"]) == 0
    out = capsys.readouterr().out
    assert "last layers to those of single" in out
    assert "each head: one head against all heads of the other model" in " ".join(out.split())
    assert len(re.findall(r"^(baseline|other) +(encoder|cross|decoder) ", out, re.M)) == 6
    content = scores(*arguments[1:])
    assert content["against"]["name"] == "single"
    assert [model["name"] for model in content["models"]] == ["baseline", "other"]
    assert all(0 < found["svcca"] < 1 for found in content["models"][0]["against"].values())


def test_sentences_too_long_for_one_model_are_skipped_for_all(save, checkpoint, data, scores):
    texts = open_models(checkpoint, data, cpu=True, heads=True).task
    texts.load_dataset("valid")
    sizes = texts.dataset("valid").src_sizes
    some = str(int(np.median(sizes)))
    short = save("short", "transformer_disagree", "--max-source-positions", some)
    both = scores(checkpoint, short, data)["models"]
    alone = scores(short, data)["models"][0]
    assert [one["sentences"] for one in both] == [alone["sentences"]] * 2
    assert 0 < alone["sentences"] < scores(checkpoint, data)["models"][0]["sentences"]
    (model,) = open_heads([short], data, cpu=True)
    shown = analyze.analyze(model, Selection(measures=("cka",), sentences=3)).sentences
    fitting = [n for n, size in enumerate(sizes) if size <= int(some)]
    assert [one["number"] for one in shown] == fitting[:3]


def test_models_without_head_states_are_refused(save, data, tmp_path):
    path = save("aligned", "transformer_align", "--alignment-heads", "1")
    with pytest.raises(UserError, match="'transformer_align' has no head states"):
        run(["analyze", str(path), str(data), "--cpu"])


def test_heads_csv_has_every_head_and_the_table_the_extremes(save, data, tmp_path, capsys):
    paths = [str(save("first", "transformer_disagree")), str(save("coda", "transformer_coda"))]
    arguments = ["--measures", "importance,importance-gradient", "--cpu"]
    assert run(["analyze", *paths, str(data), *arguments, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("Importance of heads, 10 strongest and 10 weakest (loss ") == 2
    assert "Removing one head at a time raises the loss significantly for " in out
    assert "Rank correlation (Spearman)" in out and "is replaced by zeros" in " ".join(out.split())
    models = json.loads((tmp_path / "scores.json").read_text())["models"]
    assert models[0]["importance"]["of"] == "zero" and models[0]["importance"]["tokens"] > 40
    with open(tmp_path / "heads.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 2 * 4 and "entropy" not in rows[0]
    layer = models[0]["components"]["encoder"]["layers"]["1"]
    assert float(rows[1]["importance"]) == layer["importance"]["heads"][1]
    assert float(rows[1]["low"]) < float(rows[1]["importance"]) < float(rows[1]["high"])
    assert float(rows[1]["p_holm"]) >= layer["importance"]["p"][1]
    page = (tmp_path / "report.html").read_text()
    assert "rise of the loss without the head" in page, "heat maps are labelled"
    assert "first: Removing one head" in page, "the headline quotes each model's main finding"


def test_missing_libraries_are_reported_before_the_analysis(monkeypatch):
    analyze.check_libraries()
    monkeypatch.setattr(analyze.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="need matplotlib, jinja2: pip install matplotlib jinja2"):
        analyze.check_libraries()
