"""Importance of heads by ablation and by the gradient of a gate."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from diverse_mha.analysis.importance import ImportanceMeter
from diverse_mha.analysis.results import ABLATION, GRADIENT, Component, Importance, Model
from diverse_mha.analysis.similarity import summarise
from diverse_mha.analysis.tables import legend, model_tables
from diverse_mha.analysis.view import view_data
from diverse_mha.evaluation.ablation import (
    ActivationCache,
    gated,
    run_model,
    sentence_losses,
    sites_of,
)
from diverse_mha.evaluation.adapter import FairseqAdapter
from diverse_mha.evaluation.comparison.statistics import rate
from diverse_mha.evaluation.models import Loaded
from tests import toy, toy_classification
from tests.models.test_language_model import ADAPTIVE, build
from tests.properties import families

WIDTH = 4  # head dimension of the tiny models
ROUTING = {"aggregation_encoder_layers": "1", "aggregation_cross_layers": "2"}
MODELS = {
    "translation": lambda: (toy.build_ours(), toy.toy_batch()),
    "pre-norm": lambda: (
        toy.build_ours(encoder_normalize_before=True, decoder_normalize_before=True),
        toy.toy_batch(extra_padding=1),
    ),
    "routing": lambda: (toy.build_ours("transformer_routing", **ROUTING), toy.toy_batch()),
    "coda": lambda: (toy.build_ours("transformer_coda"), toy.toy_batch()),
    "activation checkpoints": lambda: (
        toy.build_ours(checkpoint_activations=True),
        toy.toy_batch(),
    ),
    "language model": lambda: (build(), families.batch("lm", [5, 3, 4])),
    "adaptive softmax": lambda: (build(**ADAPTIVE), families.batch("lm", [5, 3, 4])),
    "classifier": lambda: (
        toy_classification.build_classifier(),
        toy_classification.toy_batch(lengths=(9, 3, 4, 6)),
    ),
}


@pytest.fixture(params=MODELS)
def model_and_batch(request):
    model, batch = MODELS[request.param]()
    return model.double().eval(), batch


def meter_of(model, *arguments, sites=None):
    task = SimpleNamespace(sentences=1 if hasattr(model, "decoder") else 2)
    adapter = FairseqAdapter(Loaded("x.pt", "ours", [model], task))
    return ImportanceMeter(adapter, sites or adapter.sites, *arguments)


def without(head):
    def change(outputs):
        outputs = outputs.clone()
        outputs[:, :, head] = 0
        return outputs

    return change


@torch.no_grad()
def test_activation_cache_equals_a_full_forward_pass(model_and_batch):
    model, batch = model_and_batch
    cache = ActivationCache(model, batch)
    torch.testing.assert_close(cache.output, run_model(model, batch), rtol=0, atol=0)
    sites = sites_of(model)
    assert len(sites) == len({site.component for site in sites}) * 2
    for site in sites:
        with gated(site, without(1)):
            whole = run_model(model, batch)
        found = cache.ablate(site, without(1))
        torch.testing.assert_close(found, whole, rtol=0, atol=1e-12)
        assert (found - cache.output).abs().max() > 1e-6
    torch.testing.assert_close(run_model(model, batch), cache.output, rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("name", ["translation", "coda", "language model", "classifier"])
def test_ablation_equals_zeroing_output_projection_columns(name):
    model, batch = MODELS[name]()
    model.double().eval()
    meter = meter_of(model, (ABLATION,))
    assert [*meter.update(batch)] == meter.sites
    found, modules = meter.result()
    before, counts = sentence_losses(model, batch, run_model(model, batch))
    assert found.loss == pytest.approx(float(before.sum() / counts.sum()) / math.log(2))
    for site in meter.sites:
        heads = modules[site.component][str(site.number)][ABLATION].heads
        for head in range(4):
            weight = site.attention.out_proj.weight
            kept = weight.clone()
            weight[:, head * WIDTH : (head + 1) * WIDTH] = 0
            after, _ = sentence_losses(model, batch, run_model(model, batch))
            weight.copy_(kept)
            rise = float((after - before).sum() / counts.sum()) / math.log(2)
            assert heads[head] == pytest.approx(rise, abs=1e-12)


def test_gradient_equals_the_finite_difference_of_a_gate(model_and_batch):
    model, batch = model_and_batch
    meter = meter_of(model, (GRADIENT,))
    list(meter.update(batch))
    (_, modules), step = meter.result(), 1e-5
    for site in meter.sites[::2]:
        heads = modules[site.component][str(site.number)][GRADIENT].heads
        for head in (0, 3):
            losses = []
            for gate in (1 + step, 1 - step):
                gates = torch.ones(4, dtype=torch.float64)
                gates[head] = gate
                with torch.no_grad(), gated(site, lambda x, g=gates: x * g[:, None]):
                    losses.append(sentence_losses(model, batch, run_model(model, batch))[0])
            slopes = ((losses[0] - losses[1]) / (2 * step)).abs().sum()
            counts = sentence_losses(model, batch, run_model(model, batch))[1].sum()
            assert heads[head] == pytest.approx(float(slopes / counts) / math.log(2), rel=1e-5)


@pytest.mark.parametrize("name", ["language model", "classifier"])
def test_the_unit_of_the_loss_is_named_in_tables_and_maps(name):
    model, batch = MODELS[name]()
    model.double().eval()
    meter = meter_of(model, (ABLATION, GRADIENT))
    list(meter.update(batch))
    importance, modules = meter.result()
    unit, others = ("example", "token") if name == "classifier" else ("token", "example")
    assert importance.unit == unit and importance.tokens == (2 if unit == "example" else 12)
    entries = {c: Component(4, 9, layers) for c, layers in modules.items()}
    found = Model("m", "m.pt", "a", 9, entries, summarise(entries), importance=importance)
    (table,) = model_tables(found)
    titles = [title for title, _ in view_data([(found, [])])["measures"].values()]
    texts = [table.title, *legend([found]), *titles]
    assert len(texts) == 5 and all(f"bits per {unit}" in text for text in texts)
    assert not any(f"per {others}" in text for text in texts)
    of_each = "example" if unit == "example" else "sentence"
    assert f"interval over {of_each}s" in texts[1] and f"each {of_each}'s loss" in texts[2]
    assert Importance(0.5, 9, None, "zero").unit == "token", "results of before lack the unit"


@torch.no_grad()
def test_sentence_losses_equal_those_of_fairseq(model_and_batch):
    model, batch = model_and_batch
    losses, counts = sentence_losses(model, batch, run_model(model, batch))
    output = model(**batch["net_input"])
    log_probs = model.get_normalized_probs(output, log_probs=True, sample=batch)
    target = batch["target"]
    if target.dim() == 1:
        log_probs, target, real = log_probs[:, None], target[:, None], torch.ones(len(target), 1)
    else:
        real = target.ne(1)
    nll = -log_probs.double().gather(2, target[:, :, None])[:, :, 0] * real
    torch.testing.assert_close(losses, nll.sum(1), rtol=1e-6, atol=1e-6)
    assert counts.tolist() == real.sum(1).tolist()


def test_interval_over_sentences_covers_the_true_ratio_in_95_percent_of_samples():
    generator = np.random.default_rng(1)
    values, covered = [], 0
    for _ in range(400):
        counts = generator.integers(3, 30, 200).astype(float)
        differences = counts * (0.5 + generator.normal(0, 1, 200) / np.sqrt(counts))
        found = rate(differences, counts)
        values.append(found.value)
        covered += found.interval[0] < 0.5 < found.interval[1]
    assert covered / 400 == pytest.approx(0.95, abs=0.03)
    assert found.standard_error == pytest.approx(np.std(values), rel=0.15)
    assert rate(differences[:1], counts[:1]).interval is None
    assert rate(np.zeros(5), np.ones(5)).p == 1


@torch.no_grad()
def test_constant_heads_have_no_importance_under_mean_ablation():
    model, batch = MODELS["translation"]()
    model.double().eval()
    site = sites_of(model)[0]
    site.attention.v_proj.weight[:WIDTH] = 0  # the first head returns its bias for every input
    means = torch.zeros(4, WIDTH, dtype=torch.float64)
    means[0] = site.attention.v_proj.bias[:WIDTH] = 3.0
    for constant_outputs in ({("encoder", 1): means}, None):
        meter = meter_of(model, (ABLATION,), constant_outputs, sites=[site])
        list(meter.update(batch))
        first = meter.result()[1]["encoder"]["1"][ABLATION].heads[0]
        assert (abs(first) < 1e-12) == (constant_outputs is not None)
