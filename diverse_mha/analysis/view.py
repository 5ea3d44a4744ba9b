"""Data for the report's view of single heads: attention weights of sentences, maps of heads."""

import base64
from typing import Any

import torch
from torch import Tensor

from diverse_mha.analysis.importance import ABLATION, GRADIENT
from diverse_mha.analysis.labels import COMPONENT_TITLES
from diverse_mha.analysis.protocol import Adapter
from diverse_mha.analysis.results import Component, Model
from diverse_mha.analysis.similarity import mean
from diverse_mha.analysis.sites import components_of
from diverse_mha.attention import HeadStates
from diverse_mha.attention.sites import Site

TOKENS = 64  # tokens shown on each side; a block of a language model may have thousands
#: Measure -> attribute, title, meaning of a strong colour. For a measure of pairs, the value of a
#: head is the mean over the other heads of its module.
MAPS = {
    "cka": ("pairs", "CKA with the other heads of the layer", "more similar"),
    "svcca": ("pairs", "SVCCA with the other heads of the layer", "more similar"),
    "jsd": ("pairs_per_row", "JSD per query from the other heads of the layer", "differs more"),
    "entropy": ("heads", "entropy of the attention, nats", "less sharp"),
    ABLATION: ("heads", "rise of the loss without the head, bits per {unit}", "needed more"),
    GRADIENT: ("heads", "|gradient| of a gate on the head, bits per {unit}", "needed more"),
}


def take_sentence(
    model: Adapter, batch: Any, index: int, states: dict[str, list[HeadStates]], sites: list[Site]
) -> dict:
    """Return the attention weights of one sentence of a batch, without padding.

    Args:
        model: the model.
        batch: the model's batch.
        index: place of the sentence in the batch.
        states: head states of the batch, with ``weights``.
        sites: the modules to show. Pruned heads get weights of 0.

    Returns:
        ``{"number", "components": {component: {"queries", "keys", "weights"}}}``: the sentence's
        number as in the data, the first ``TOKENS`` tokens of queries and keys, and the weights w
        (layers, heads, queries, keys) as round(255 w) in base64.
    """
    components = {}
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
            own = layers[site.number - 1].weights[row].float().cpu()[:, real_t][:, :, real_s]
            own = torch.stack(site.numbers.spread(list(own), torch.zeros_like(own[0])))
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


def view_data(analyses: list[tuple[Model, list[dict]]]) -> dict:
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
        m: [title.format(unit=unit), strong]
        for m, (_, title, strong) in MAPS.items()
        if m in measured
    }
    return {"models": models, "measures": measures}


def _rows(entry: Component, measure: str) -> list[list[float | None]]:
    """Return layer -> value of ``measure`` for each head, as nested lists."""
    rows = []
    for layer in entry.layers.values():
        values = getattr(layer[measure], MAPS[measure][0], None) or [None] * entry.heads
        if measure in ("cka", "svcca", "jsd"):
            values = [
                mean([x for other, x in enumerate(row or ()) if other != head])
                for head, row in enumerate(values)
            ]
        rows.append([None if value is None else round(value, 5) for value in values])
    return rows
