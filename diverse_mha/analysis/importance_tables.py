"""Tables of the most and least important heads."""

from collections.abc import Mapping
from typing import NamedTuple

from diverse_mha.analysis.importance import ABLATION, GRADIENT
from diverse_mha.analysis.names import file_name
from diverse_mha.analysis.tables import Table, model_tables

SHOWN = 10  # strongest and weakest heads each
SIGNIFICANT = 0.05
REPLACED = {"zero": "zeros replace its output", "mean": "its mean output replaces it"}
MEANINGS = {
    ABLATION: "Rise: bits a token that the loss rises when {replaced}, with its 95 % interval over "
    "sentences; p: of no rise, corrected by Holm for all heads measured (Michel et al. 2019; Voita "
    "et al. 2019)",
    GRADIENT: "|Gradient|: mean over sentences of the absolute gradient of the loss by a gate on "
    "the head, bits a token (Michel et al. 2019, Eq. 2)",
}


class Measured(NamedTuple):
    """Importance of a head; None where not measured."""

    component: str
    layer: str
    head: int  # from 1
    rise: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None  # corrected
    gradient: float | None = None


def heads_of(result: dict) -> list[Measured]:
    """Return the measured heads, in the order of the model."""
    found = []
    for component, entry in result["components"].items():
        for number, layer in entry["layers"].items():
            rises, slopes = layer.get(ABLATION), layer.get(GRADIENT)
            for head in range(entry["heads"] if rises or slopes else 0):
                found.append(
                    Measured(
                        component,
                        number,
                        head + 1,
                        *((rises[key][head] for key in ("heads", "intervals", "holm")) if rises
                          else (None,) * 3),
                        slopes and slopes["heads"][head],
                    )
                )  # fmt: skip
    return found


def ranked(heads: list[Measured]) -> list[Measured]:
    """Sort heads, the strongest first: by the rise of the loss, or by the gradient without it."""
    return sorted(heads, key=lambda head: head.gradient if head.rise is None else -head.rise,
                  reverse=heads[0].rise is None)  # fmt: skip


def tables_of(result: dict, titles: Mapping[str, str] | None = None) -> list[Table]:
    """Return all tables of a model; ``titles`` say what to call its components."""
    heads = heads_of(result)
    tables = model_tables(result, titles)
    return [*tables, _table(result, ranked(heads), titles or {})] if heads else tables


def importance_legend(results: list[dict]) -> list[str]:
    """Return notes on the columns."""
    lines = [line for result in results if "importance" in result for line in _meanings(result)]
    return list(dict.fromkeys(lines))


def _meanings(result: dict) -> list[str]:
    replaced = REPLACED[result["importance"]["of"]]
    return [
        text.format(replaced=replaced) for m, text in MEANINGS.items() if m in result["summary"]
    ]


def _table(result: dict, heads: list[Measured], titles: Mapping[str, str]) -> Table:
    said, measured = result["importance"], [m for m in MEANINGS if m in result["summary"]]
    parts = [heads[:SHOWN], heads[-SHOWN:]] if len(heads) > 2 * SHOWN else [heads]
    headings = ["component", "layer", "head"]
    headings += ["rise", "95 %", "p"] if ABLATION in measured else []
    headings += ["|gradient|"] if GRADIENT in measured else []
    which = f"{SHOWN} strongest and {SHOWN} weakest" if len(parts) > 1 else "strongest first"
    title = f"Importance of heads, {which} (loss {said['loss']:.3f} bits a token)"
    groups = [[_row(head, titles, measured) for head in part] for part in parts]
    return Table(
        f"importance-{file_name(result['name'])}", title, 3, headings, groups, _meanings(result),
        tuple(_findings(heads, said)),
    )  # fmt: skip


def _row(head: Measured, titles: Mapping[str, str], measured: list[str]) -> list[str]:
    cells = [titles.get(head.component, head.component), head.layer, str(head.head)]
    if ABLATION in measured:
        low, high = head.interval or (None, None)
        between = "-" if low is None else f"[{low:+.4f}, {high:+.4f}]"
        cells += [f"{head.rise:+.4f}", between, _p(head.p)]
    return [*cells, f"{head.gradient:.4f}"] if GRADIENT in measured else cells


def _p(p: float | None) -> str:
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _findings(heads: list[Measured], said: dict) -> list[str]:
    found = []
    if heads[0].rise is not None:
        tested = [head for head in heads if head.p is not None and head.p < SIGNIFICANT]
        needed = sum(head.rise > 0 for head in tested)
        harmful = len(tested) - needed
        found.append(
            f"Without one head the loss rises significantly for {needed} of {len(heads)} heads"
            + (f", and falls for {harmful}." if harmful else ".")
        )
    if said["spearman"] is not None:
        found.append(
            "Rank correlation (Spearman) of the rise and the gradient over the heads: "
            f"{said['spearman']:.2f}."
        )
    return found
