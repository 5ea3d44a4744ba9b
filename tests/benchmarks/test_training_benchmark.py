"""The training benchmark computes and reports what it says; nothing here looks at speed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import equality
from benchmarks.batches import batches_for, draw_lengths, make_batches, stand_in_task
from benchmarks.equality import Evidence, judge
from benchmarks.rounds import run_rounds
from benchmarks.shapes import SHAPES, LanguageModelShape, Shape
from benchmarks.training import Trainee
from benchmarks.variants import STOCK, VARIANTS, choose, variants_of
from diverse_mha.common.errors import UserError

CPU = torch.device("cpu")
TOY = Shape(16, 24, 2, 4, vocabulary=40, batch_tokens=100, mean_length=8)

TOY_TEXT = LanguageModelShape(16, 24, 2, 4, vocabulary=40, batch_tokens=64, mean_length=16)


def toy_batches(count=1, seed=1):
    return make_batches(count, TOY.vocabulary, TOY.batch_tokens, TOY.mean_length, seed)


def toy_trainee(name, precision="fp32"):
    task = stand_in_task(TOY.vocabulary)
    return Trainee(VARIANTS[name], TOY.options(), task, device=CPU, precision=precision, seed=1)


# Batches


def test_lengths_have_the_mean_asked_for():
    """20,000 draws with a standard deviation near 14 put the mean within 0.5 of 27."""
    lengths = draw_lengths(27, 256, np.random.default_rng(1))
    assert lengths.min() >= 2 and lengths.max() <= 256
    assert abs(lengths[:, 0].mean() - 27) < 0.5 and abs(lengths[:, 1].mean() - 27) < 0.5
    assert (lengths[:, 0] != lengths[:, 1]).mean() > 0.5


def test_batches_are_padded_as_fairseq_pads_and_keep_the_budget():
    for batch in toy_batches(20):
        source, target = batch["net_input"]["src_tokens"], batch["target"]
        assert max(source.numel(), target.numel()) <= TOY.batch_tokens
        assert source[:, -1].eq(2).all()  # padding on the left, then the sentence, then its end
        assert target[:, 0].ne(1).all()
        assert batch["ntokens"] == target.ne(1).sum()
        assert source.max() < TOY.vocabulary
    assert any(b["target"].eq(1).any() for b in toy_batches(20))


def test_seed_decides_the_batches():
    first, again, other = (toy_batches(3, seed)[2]["target"] for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_blocks_of_text_are_full_and_their_targets_are_the_next_words():
    first, second = batches_for(TOY_TEXT, 2, 64, 16, seed=1)
    words, target = first["net_input"]["src_tokens"], first["target"]
    assert words.shape == target.shape == (4, 16) and first["ntokens"] == 64
    assert torch.equal(words[:, 1:], target[:, :-1])
    assert words.min() >= 4 and words.max() < TOY_TEXT.vocabulary
    assert not torch.equal(target, second["target"])


# Rounds


def test_rounds_share_the_batch_and_leave_out_the_warm_up():
    seen, checked = [], []

    def clock(step, batch):
        return float(batch["n"]), step(batch)

    seconds = run_rounds(
        {name: lambda batch, name=name: seen.append((name, batch["n"])) for name in "ab"},
        [{"n": n} for n in range(3)],
        1,
        clock,
        lambda name, outcome: checked.append(name),
    )
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert seconds == {"a": [1.0, 2.0], "b": [1.0, 2.0]}
    assert len(checked) == 6


# Figures


# Correctness before figures


@pytest.mark.integration
def test_every_variant_passes_the_check():
    task, batch = stand_in_task(TOY.vocabulary), toy_batches()[0]
    evidence = equality.gather(VARIANTS, TOY, task, batch, CPU, seed=1)
    assert judge(evidence) == []
    same = {name for name, found in evidence.items() if found.stock_parameters}
    other_parameters = {name for name in VARIANTS if name.startswith(("em-", "both", "coda"))}
    assert same == set(VARIANTS) - other_parameters
    assert evidence["output"].loss != evidence["output"].token_loss
    # The disagreement terms are negative and enter negated: they add to the loss.
    assert evidence["all-terms"].loss > evidence["output"].loss > evidence["plain"].loss
    # HSIC and SRIP are positive and enter as they are.
    for name in ("hsic", "orthogonality", "all-three"):
        assert evidence[name].has_terms
        assert evidence[name].loss > evidence["plain"].loss
    assert not evidence["drophead"].has_terms
    assert VARIANTS["drophead"].model["drophead"] == 0.1


GOOD = Evidence(10.0, 9.0, 1.0, stock_parameters=True, has_terms=False)


@pytest.mark.parametrize(
    "found, fault",
    [
        (GOOD, None),
        (replace(GOOD, loss=10.0005), None),
        (replace(GOOD, loss=10.002), "the loss is 10.002"),
        (replace(GOOD, grad_norm=1.001), "the gradient norm is 1.001"),
        (replace(GOOD, token_loss=9.01), "the token loss is 9.01"),
        (replace(GOOD, loss=12.0, grad_norm=2.0, has_terms=True), None),
        (replace(GOOD, token_loss=9.01, has_terms=True), "the token loss is 9.01"),
        (replace(GOOD, loss=20.0, token_loss=18.0, stock_parameters=False), None),
        (replace(GOOD, loss=math.nan, stock_parameters=False), "the loss is nan"),
        (replace(GOOD, grad_norm=math.inf, has_terms=True), "the gradient norm is inf"),
    ],
)
def test_judge(found, fault):
    faults = judge({STOCK: GOOD, "x": found})
    assert len(faults) == (fault is not None)
    assert fault is None or faults[0].startswith(f"x: {fault}")


# Training


def test_stock_is_fairseqs_own():
    stock, ours = toy_trainee(STOCK), toy_trainee("plain")
    assert type(stock.model).__module__.startswith("fairseq.")
    assert type(stock.criterion).__module__.startswith("fairseq.")
    assert type(ours.model).__module__.startswith("diverse_mha.")
    assert stock.parameters() == ours.parameters()


@pytest.mark.parametrize("cutoffs", ["", "10,20"], ids=["softmax", "adaptive"])
def test_language_models_compute_what_they_should(cutoffs):
    shape = replace(TOY_TEXT, cutoffs=cutoffs)
    batch = batches_for(shape, 1, 64, 16, seed=1)[0]
    variants = variants_of(shape)
    evidence = equality.gather(variants, shape, stand_in_task(40), batch, CPU, seed=1)
    assert judge(evidence) == []
    assert all(("adaptive" in v.criterion) == bool(cutoffs) for v in variants.values())
    like_stock = {name for name, found in evidence.items() if found.stock_parameters}
    assert like_stock == set(variants) - {"coda", "em-1-2"}
    terms = {name for name, found in evidence.items() if found.has_terms}
    assert terms == {"output", "hsic", "orthogonality", "all-three"}
    plain, output = evidence["plain"], evidence["output"]
    assert output.loss != pytest.approx(plain.loss) and plain.loss == pytest.approx(
        evidence[STOCK].loss
    )


# Options and report


def test_stock_is_always_measured_first():
    assert choose("output,plain", VARIANTS) == ["stock", "plain", "output"]
    with pytest.raises(UserError, match="--variants plain,plain: 'plain' is given twice"):
        choose("plain,plain", VARIANTS)
    assert choose("plain,stock", VARIANTS) == ["stock", "plain"]
    assert choose(None, VARIANTS)[0] == STOCK and len(choose(None, VARIANTS)) == len(VARIANTS)


def test_a_gpu_that_is_too_small(monkeypatch):
    def measure(args):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(command, "measure", measure)
    with pytest.raises(UserError, match="--batch-tokens 99: .*does not hold.*take less"):
        command.main(["--shape", "tiny", "--batch-tokens", "99", "--device", "cpu"])


def test_command_prints_a_table_and_writes_everything(monkeypatch, capsys, tmp_path):
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
    assert len(result["batches"]) == len(result["variants"]["stock"]["seconds"]) == 3
    assert result["options"]["seed"] == 1 and result["machine"]["versions"]["torch"]
