"""What the report's view of single heads shows: attention to some sentences, and maps of heads."""

import base64
from typing import Any

from torch import Tensor

from diverse_mha.analysis.importance import ABLATION, GRADIENT
from diverse_mha.analysis.labels import COMPONENT_TITLES
from diverse_mha.analysis.similarity import Selection, mean
from diverse_mha.attention import HeadStates

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


def take_sentence(
    task: Any,
    sample: dict,
    place: int,
    states: dict[str, list[HeadStates]],
    selection: Selection,
) -> dict:
    """Take the attention to one sentence of fairseq's batch, without padding.

    Args:
        task: has the dictionaries.
        sample: the batch.
        place: of the sentence in it.
        states: the batch's, with ``weights``.
        selection: components and layers to take.

    Returns:
        ``{"number", "components": {component: {"queries", "keys", "weights"}}}``: the number in the
        split, as fairseq-generate has it, the first tokens of both sides, and the weights as bytes,
        round(255 w), of (layers, heads, queries, keys), in base64.
    """
    components = {}
    for component in selection.chosen(states):
        layers = states[component]
        # A pair of sentences has two rows; the first is shown.
        row = place * (len(layers[0].weights) // len(sample["id"]))
        queries, keys = _tokens(task, sample, component, row)
        real_t = _real(layers[0].query_padding_mask, row, len(queries))
        real_s = _real(layers[0].key_padding_mask, row, len(keys))
        weights = b"".join(
            (layers[number - 1].weights[row].float().cpu()[:, real_t][:, :, real_s] * 255)
            .round().byte().numpy().tobytes()
            for number in selection.numbers(len(layers))
        )  # fmt: skip
        components[component] = {
            "queries": [queries[t] for t in real_t],
            "keys": [keys[s] for s in real_s],
            "weights": base64.b64encode(weights).decode("ascii"),
        }
    return {"number": int(sample["id"][place]), "components": components}


def _real(padding: Tensor | None, row: int, length: int) -> list[int]:
    """Return the first places that are no padding."""
    real = range(length) if padding is None else (~padding[row]).nonzero().flatten().tolist()
    return list(real)[:TOKENS]


def _tokens(task: Any, sample: dict, component: str, row: int) -> tuple[list[str], list[str]]:
    """Return the tokens of the queries and of the keys, padding included.

    The decoder's positions are named by the word they read. The queries of the attention to
    the source are named by the word they are to predict, as in an alignment.
    """
    net_input = sample["net_input"]
    source = [task.source_dictionary[int(n)] for n in net_input["src_tokens"][row]]
    if component == "encoder" or "prev_output_tokens" not in net_input:
        return source, source
    read = sample["target"] if component == "cross" else net_input["prev_output_tokens"]
    target = [task.target_dictionary[int(n)] for n in read[row]]
    return target, source if component == "cross" else target


def view_data(analyses: list[tuple[dict, list[dict]]]) -> dict:
    """Return what ``templates/view.js`` reads of results and sentences, ready for JSON."""
    models, measured = [], analyses[0][0]["summary"]
    for result, sentences in analyses:
        components = {
            component: {
                "title": COMPONENT_TITLES[component],
                "heads": entry["heads"],
                "layers": [*entry["layers"]],
                "maps": {m: _rows(entry, m) for m in MAPS if m in measured},
            }
            for component, entry in result["components"].items()
        }
        models.append({"name": result["name"], "components": components, "sentences": sentences})
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
