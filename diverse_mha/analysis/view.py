"""What the report's view of single heads shows: attention to some sentences, and maps of heads."""

import base64
from typing import TYPE_CHECKING

from diverse_mha.analysis.collect import mean
from diverse_mha.analysis.importance import ABLATION, GRADIENT
from diverse_mha.analysis.names import COMPONENT_TITLES

if TYPE_CHECKING:
    from diverse_mha.analysis.run import Analysis
    from diverse_mha.analysis.sentence import Attention, SentenceAttention

TOKENS = 64  # of a side of a sentence; a block of a language model may have thousands
#: By measure: key of a layer's values, what a cell says, what a strong colour means. Of a matrix of
#: pairs a head has its mean with the other heads of its module.
MAPS = {
    "cka": ("pairs", "CKA with the other heads of the layer", "more similar"),
    "svcca": ("pairs", "SVCCA with the other heads of the layer", "more similar"),
    "jsd": ("pairs_per_row", "JSD per query from the other heads of the layer", "differs more"),
    "entropy": ("heads", "entropy of the attention, nats", "less sharp"),
    ABLATION: ("heads", "rise of the loss without the head, bits a token", "needed more"),
    GRADIENT: ("heads", "|gradient| by a gate on the head, bits a token", "needed more"),
}


def view_data(analyses: list["Analysis"]) -> dict:
    """Return what ``templates/view.js`` reads, ready for JSON.

    Weights are bytes, round(255 w), of (layers, heads, queries, keys), in base64.
    """
    models, measured = [], analyses[0].result["summary"]
    for result, sentences in ((analysis.result, analysis.attention) for analysis in analyses):
        components = {
            component: {
                "title": COMPONENT_TITLES[component],
                "heads": entry["heads"],
                "layers": [*entry["layers"]],
                "maps": {m: _rows(entry, m) for m in MAPS if m in measured},
            }
            for component, entry in result["components"].items()
        }
        shown = [_sentence(sentence) for sentence in sentences]
        models.append({"name": result["name"], "components": components, "sentences": shown})
    measures = {m: [title, strong] for m, (_, title, strong) in MAPS.items() if m in measured}
    return {"models": models, "measures": measures}


def _rows(entry: dict, measure: str) -> list[list[float | None]]:
    """Give a value of every head, by layer."""
    rows = []
    for layer in entry["layers"].values():
        values = (layer[measure] or {}).get(MAPS[measure][0]) or [None] * entry["heads"]
        if measure in ("cka", "svcca", "jsd"):
            values = [
                mean([x for other, x in enumerate(row or ()) if other != head])
                for head, row in enumerate(values)
            ]
        rows.append([None if value is None else round(value, 5) for value in values])
    return rows


def _sentence(sentence: "SentenceAttention") -> dict:
    components = {name: _words(maps) for name, maps in sentence.components.items()}
    return {"number": sentence.number, "components": components}


def _words(maps: "Attention") -> dict:
    weights = b"".join(
        (layer[:, :TOKENS, :TOKENS] * 255).round().byte().numpy().tobytes()
        for layer in maps.layers.values()
    )
    return {
        "queries": maps.queries[:TOKENS],
        "keys": maps.keys[:TOKENS],
        "weights": base64.b64encode(weights).decode("ascii"),
    }
