"""Computation and report of the training benchmark. Speed is not tested."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks import benchmark as command
from benchmarks.batches import batches_for, make_batches, stand_in_task
from benchmarks.rounds import run_rounds
from benchmarks.shapes import SHAPES, LanguageModelShape, Shape
from benchmarks.training import Trainee
from benchmarks.variants import STOCK, VARIANTS, variants_of
from diverse_mha.recipes.recipe import compose

CPU = torch.device("cpu")
TOY = Shape(16, 24, 2, 4, vocabulary=40, batch_tokens=100, mean_length=8)

TOY_TEXT = LanguageModelShape(16, 24, 2, 4, vocabulary=40, batch_tokens=64, mean_length=16)


def toy_batches(count=1, seed=1):
    return make_batches(count, TOY.vocabulary, TOY.batch_tokens, TOY.mean_length, seed)


def toy_trainee(name, precision="fp32"):
    task = stand_in_task(TOY.vocabulary)
    return Trainee(VARIANTS[name], TOY.options(), task, device=CPU, precision=precision, seed=1)


# Batches


def test_batches_are_padded_as_in_fairseq_and_within_batch_tokens():
    for batch in toy_batches(20):
        source, target = batch["net_input"]["src_tokens"], batch["target"]
        assert max(source.numel(), target.numel()) <= TOY.batch_tokens
        assert source[:, -1].eq(2).all()  # sources are padded left, so </s> is last
        assert target[:, 0].ne(1).all()
        assert batch["ntokens"] == target.ne(1).sum()
        assert source.max() < TOY.vocabulary
    assert any(b["target"].eq(1).any() for b in toy_batches(20))


# Shapes

RECIPES = {
    "multi30k-small": ("multi30k_small", {}),
    "base": ("wmt14_en_de", {"size": "base"}),
    "ptb": ("ptb", {}),
    "wiki103-small": ("wiki103_small", {}),
}
SIZES = ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")


@pytest.mark.parametrize("name", RECIPES)
def test_a_shape_has_the_sizes_of_its_recipe(name):
    recipe, choices = RECIPES[name]
    model = compose(recipe, choices, {})["model"]
    options = SHAPES[name].options()
    sides = [side for side in ("encoder", "decoder") if f"{side}_layers" in model]
    for key in (f"{side}_{size}" for side in sides for size in SIZES):
        assert options[key] == model[key], key
    assert options.get("adaptive_softmax_cutoff") == model.get("adaptive_softmax_cutoff")


# Rounds


def test_variants_of_a_round_share_a_batch_and_the_warm_up_is_not_timed():
    seen = []

    def clock(step, batch):
        step(batch)
        return float(batch["n"])

    seconds = run_rounds(
        {name: lambda batch, name=name: seen.append((name, batch["n"])) for name in "ab"},
        [{"n": n} for n in range(3)],
        1,
        clock,
    )
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert seconds == {"a": [1.0, 2.0], "b": [1.0, 2.0]}


# Training


def test_the_stock_variant_is_fairseqs_model():
    stock, ours = toy_trainee(STOCK), toy_trainee("plain")
    assert type(stock.model).__module__.startswith("fairseq.")
    assert type(stock.criterion).__module__.startswith("fairseq.")
    assert type(ours.model).__module__.startswith("diverse_mha.")
    assert stock.parameters() == ours.parameters()


ALIKE = ("plain", "plain-stock-loss", "drophead")  # variants that equal stock without dropout


@pytest.mark.integration
@pytest.mark.parametrize(
    "shape", [TOY, TOY_TEXT, replace(TOY_TEXT, cutoffs="10,20")], ids=["mt", "lm", "adaptive"]
)
def test_every_variant_trains_and_those_without_a_method_equal_stock(shape):
    shape = replace(shape, dropout=0.0)
    task, found, stock = stand_in_task(shape.vocabulary), {}, {}
    for name, variant in variants_of(shape).items():
        variant = replace(
            variant, model={k: v for k, v in variant.model.items() if k != "drophead"}
        )
        options = {"device": CPU, "precision": "fp32", "seed": 1}
        trainee = Trainee(variant, shape.options(), task, **options)
        stock = stock or {key: value.clone() for key, value in trainee.model.state_dict().items()}
        own = trainee.model.state_dict()
        shared = {key: value for key, value in stock.items() if key in own}
        trainee.model.load_state_dict(shared, strict=False)
        found[name] = trainee.step(batches_for(shape, 1, 64, 16, seed=1)[0])
        assert found[name].finite()
    assert "adaptive" in variant.criterion or not getattr(shape, "cutoffs", "")
    for name in ALIKE:
        if name in found:
            assert float(found[name].loss) == pytest.approx(float(found[STOCK].loss), rel=1e-4)
            norms = [float(found[key].grad_norm) for key in (name, STOCK)]
            assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    for name in ("output", "hsic", "orthogonality"):
        assert found[name].loss > found["plain"].loss


# Options and report


def test_the_command_prints_a_table_and_writes_all_results(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(SHAPES, "base", TOY)
    monkeypatch.setattr(command, "peak_memory", lambda *args, **options: 3 * 2**20)
    path = tmp_path / "new" / "result.json"
    options = ["--shape", "base", "--variants", "output", "--rounds", "3", "--warm-up", "1"]
    assert command.main([*options, "--device", "cpu", "--output", str(path)]) == 0
    result = json.loads(path.read_text())
    printed = capsys.readouterr().out
    assert printed.strip() == command.format_markdown(result)
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("|")]
    assert len(rows) == 4 and len({len(row) for row in rows}) == 1
    assert rows[2][0] == "| `stock`" and rows[2][4] == "1.000 (1.000-1.000)"
    assert rows[3][0] == "| `output`" and rows[3][5] == "3"
    assert "3 interleaved rounds after 1 of warm-up. Ratio: median" in printed
    assert len(result["variants"]["stock"]["seconds"]) == 3
    assert result["machine"]["versions"]["torch"]
