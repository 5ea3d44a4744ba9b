"""Data for the report's view of single heads: attention weights of sentences, maps of heads."""

import base64
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from diverse_mha.analysis.labels import COMPONENT_TITLES
from diverse_mha.analysis.results import (
    ABLATION,
    GRADIENT,
    ByHead,
    Cka,
    Component,
    Divergence,
    Measure,
    Model,
    Sentence,
    Shown,
    Svcca,
)
from diverse_mha.analysis.similarity import mean
from diverse_mha.analysis.sites import components_of
from diverse_mha.attention import HeadStates
from diverse_mha.evaluation.protocol import Adapter, Batch, OwnSite

TOKENS = 64  # tokens shown on each side; a block of a language model may have thousands
#: Measure -> title of its map, and the meaning of a strong colour.
MAPS = {
    "cka": ("CKA with the other heads of the layer", "more similar"),
    "svcca": ("SVCCA with the other heads of the layer", "more similar"),
    "jsd": ("JSD per query from the other heads of the layer", "differs more"),
    "entropy": ("entropy of the attention, nats", "less sharp"),
    ABLATION: ("rise of the loss without the head, bits per {unit}", "needed more"),
    GRADIENT: ("|gradient| of a gate on the head, bits per {unit}", "needed more"),
}


def take_sentence(
    model: Adapter[Batch, OwnSite],
    batch: Batch,
    index: int,
    states: dict[str, list[HeadStates]],
    sites: Sequence[OwnSite],
) -> Sentence:
    """Return the attention weights of one sentence of a batch, without padding.

    Args:
        model: the model.
        batch: the model's batch.
        index: place of the sentence in the batch.
        states: head states of the batch, with ``weights``.
        sites: the modules to show. Pruned heads get weights of 0.

    Returns:
        The sentence's number, and for each component the first ``TOKENS`` tokens of queries and
        keys, and the weights.
    """
    components: dict[str, Shown] = {}
    row = index * model.rows  # an example with a pair of sentences has two rows; show the first
    for component in components_of(sites):
        layers = states[component]
        queries, keys = model.tokens(batch, component, row)
        real_t = _real(layers[0].query_padding_mask, row, len(queries))
        real_s = _real(layers[0].key_padding_mask, row, len(keys))
        weights = b""
        for site in sites:
            if site.component != component:
                continue
            own = layers[site.number - 1].required("weights")[row].float().cpu()
            own = own[:, real_t][:, :, real_s]
            own = torch.stack(site.numbers.spread(own, torch.zeros_like(own[0])))
            weights += (own * 255).round().byte().numpy().tobytes()
        components[component] = {
            "queries": [queries[t] for t in real_t],
            "keys": [keys[s] for s in real_s],
            "weights": base64.b64encode(weights).decode("ascii"),
        }
    return {"number": model.numbers(batch)[index], "components": components}


def _real(padding: Tensor | None, row: int, length: int) -> list[int]:
    """Return the first ``TOKENS`` positions that are not padding."""
    real = range(length) if padding is None else (~padding[row]).nonzero().flatten().tolist()
    return list(real)[:TOKENS]


def view_data(analyses: Sequence[tuple[Model, list[Sentence]]]) -> dict[str, Any]:
    """Return the input of ``templates/view.js``, ready for JSON."""
    models, measured = [], analyses[0][0].summary
    for result, sentences in analyses:
        components = {
            component: {
                "title": COMPONENT_TITLES[component],
                "heads": entry.heads,
                "layers": [*entry.layers],
                "maps": {m: _rows(entry, m) for m in MAPS if m in measured},
            }
            for component, entry in result.components.items()
        }
        models.append({"name": result.name, "components": components, "sentences": sentences})
    importance = analyses[0][0].importance
    unit = importance.unit if importance else ""
    measures = {
        m: [title.format(unit=unit), strong] for m, (title, strong) in MAPS.items() if m in measured
    }
    return {"models": models, "measures": measures}


def _rows(entry: Component, measure: str) -> list[list[float | None]]:
    """Return layer -> value of ``measure`` for each head, as nested lists."""
    rows = []
    for layer in entry.layers.values():
        values = _by_head(layer.get(measure)) or [None] * entry.heads
        rows.append([None if value is None else round(value, 5) for value in values])
    return rows


def _by_head(measure: Measure | None) -> ByHead:
    """Return the value of each head; for a measure of pairs, the mean over the other heads."""
    if measure is None:
        return []
    if not isinstance(measure, Cka | Svcca | Divergence):
        return measure.heads
    pairs = measure.pairs_per_row if isinstance(measure, Divergence) else measure.pairs
    return [
        mean(x for other, x in enumerate(row) if other != head) for head, row in enumerate(pairs)
    ]
