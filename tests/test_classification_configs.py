"""The classification recipes hold the paper's settings, and build all four of its models."""

import pytest
import torch
from fairseq import criterions, models

from tests.recipes import recipe
from tests.toy_classification import toy_task

ROUTING = ["model.aggregation=em-routing", "model.aggregation_encoder_layers='1,2'"]
ROWS = {
    "baseline": [],
    "disagreement": ["criterion.disagreement=output"],
    "aggregation": ROUTING,
    "both": ["criterion.disagreement=output", *ROUTING],
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name, sentences", [("logic", 2), ("probing", 1)])
def test_all_four_models_build(name, sentences, row):
    cfg = recipe(name, *ROWS[row])
    task = toy_task(sentences)
    with torch.device("meta"):
        model = models.build_model(cfg.model, task)
    criterion = criterions.build_criterion(cfg.criterion, task)
    assert len(model.encoder.layers) == {"logic": 2, "probing": 6}[name]
    routed = [
        not isinstance(layer.self_attn.out_proj, torch.nn.Linear) for layer in model.encoder.layers
    ]
    assert sum(routed) == (2 if row in ("aggregation", "both") else 0)
    assert criterion.diversity.wanted == (("outputs",) if row in ("disagreement", "both") else ())


def test_the_settings_are_the_papers():
    """Li et al. 2021, sections 4.2.2 and 4.3.2."""
    logic, probing = recipe("logic"), recipe("probing")
    assert (logic.model.dropout, logic.optimization.lr, logic.optimization.max_epoch) == (
        0.2,
        [0.0001],
        100,
    )
    assert (logic.model.encoder_embed_dim, str(logic.model.pooling)) == (256, "queries")
    assert (logic.model.pooling_queries, logic.model.classifier_layers) == (2, 3)
    assert (probing.optimization.lr, probing.optimization.max_epoch) == ([0.0005], 250)
    widths = probing.model.encoder_embed_dim, probing.model.encoder_ffn_embed_dim
    assert widths == (512, 2048) and str(probing.model.pooling) == "mean"
    for cfg in (logic, probing):
        assert cfg.checkpoint.maximize_best_checkpoint_metric is True
        assert cfg.checkpoint.best_checkpoint_metric == "accuracy"
