"""Results of an analysis: a dataclass for each level, from a model to a measure of a module.

``to_json`` gives the content of ``scores.json``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Literal, NamedTuple, TypedDict

ABLATION: Final = "importance"
GRADIENT: Final = "importance-gradient"
PairMeasure = Literal["cka", "svcca", "jsd"]  # measures of pairs of heads
#: Values of heads, of which head n has the index n - 1, and of pairs of heads, (H, H). The values
#: of pruned heads that the model lacks are None.
ByHead = Sequence[float | None]
Pairs = Sequence[ByHead]


def optional() -> Any:
    """Declare a field that is left out of the JSON file if it was not measured."""
    return field(default=None, metadata={"optional": True})


def named(name: str) -> Any:
    """Declare a field with another name in the JSON file."""
    return field(metadata={"name": name})


@dataclass(frozen=True)
class Cka:
    """CKA of the heads of a module."""

    mean: float | None  # over pairs i < j; None with one head
    pairs: Pairs
    unbiased_mean: float | None
    pairs_unbiased: Pairs | None


@dataclass(frozen=True)
class Svcca:
    """SVCCA of the heads of a module."""

    mean: float | None
    top_mean: float | None  # mean of the leading correlations only
    pairs: Pairs
    pairs_top: Pairs
    coefficients: dict[str, list[float]]  # pair, such as "1-2" -> canonical correlations
    kept: Sequence[int | None]  # number of directions kept of each head
    threshold: float  # share of the variance that the kept directions cover


@dataclass(frozen=True)
class Divergence:
    """Jensen-Shannon divergence of the attention of a module's heads, in nats."""

    mean: float | None  # mean per sentence
    per_row: float | None  # mean per query
    pairs: Pairs
    pairs_per_row: Pairs


@dataclass(frozen=True)
class Sharpness:
    """Entropy of the attention of a module's heads, in nats."""

    mean: float
    heads: ByHead
    # Share of the queries whose largest weight is above 0.95.
    share_above: float = named("share_above_0.95")
    heads_share_above: ByHead = named("heads_share_above_0.95")


@dataclass(frozen=True)
class Ablation:
    """Rise of the loss by the ablation of each head, in bits per ``Importance.unit``."""

    heads: ByHead
    intervals: Sequence[tuple[float, float] | None]  # 95 % over sentences
    p: ByHead
    holm: ByHead  # p, corrected for the number of heads
    mean: float | None


@dataclass(frozen=True)
class Gradient:
    """Absolute gradient of the loss by a gate on each head, in bits per ``Importance.unit``."""

    heads: ByHead
    mean: float | None


Measure = Cka | Svcca | Divergence | Sharpness | Ablation | Gradient
#: Name -> measure of a module, for those that were measured; None if there are too few positions.
Layer = TypedDict(
    "Layer",
    {
        "cka": Cka | None,
        "svcca": Svcca | None,
        "jsd": Divergence,
        "entropy": Sharpness,
        "importance": Ablation,
        "importance-gradient": Gradient,
    },
    total=False,
)


def value_of(layer: Layer, measure: str, key: str) -> float | None:
    """Return the number of a measure in its attribute ``key``; None if it is not known."""
    return getattr(layer.get(measure), key, None)


@dataclass
class Component:
    """The measures of a component's modules."""

    heads: int  # number of heads before pruning
    positions: int  # number of queries that are not padding
    layers: dict[str, Layer]  # number, from "1" -> measures
    pruned: dict[str, list[int]] | None = optional()  # layer -> pruned heads


@dataclass(frozen=True)
class Score:
    """A disagreement score exp(D) of a component, where D is a mean over pairs of heads."""

    layers: list[float | None]  # None for a layer with one head
    all: float | None  # exp of the mean D over the layers that have a score


@dataclass(frozen=True)
class Disagreement(Score):
    """The score over all pairs of heads, and the one over the pairs i != j."""

    off_diagonal: Score


@dataclass(frozen=True)
class Importance:
    """Summary of the importance over a split; values of heads are in ``Component.layers``."""

    loss: float  # loss of the whole model, in bits per unit
    tokens: int  # number of units
    spearman: float | None  # rank correlation of both measures over the heads
    of: str  # kind of ablation, "zero" or "mean"
    unit: str = "token"  # "example" for a classifier; results of before lack it


@dataclass(frozen=True)
class Similarity:
    """Similarity of a component's last layer to the last layer of another model (``--against``)."""

    layer: int
    svcca: float | None  # of all heads, concatenated
    svcca_top: float | None
    svcca_each: float | None  # mean of ``svcca_heads``
    svcca_heads: ByHead  # of each head alone
    cka: float | None
    coefficients: list[float] | None


@dataclass
class Heads:
    """The measures of a model's modules."""

    components: dict[str, Component]
    summary: dict[str, dict[str, float | None]]  # measure -> means over modules
    disagreement: dict[str, dict[str, Disagreement]] | None = None  # component -> name -> score


@dataclass
class Model:
    """The analysis of a model."""

    name: str
    checkpoint: str
    architecture: str
    sentences: int
    components: dict[str, Component]
    summary: dict[str, dict[str, float | None]]
    disagreement: dict[str, dict[str, Disagreement]] | None = optional()
    importance: Importance | None = optional()
    against: dict[str, Similarity] | None = optional()
    sha256: str = ""


@dataclass
class Content:
    """The content of ``scores.json``."""

    subset: str
    data: str
    made: dict[str, Any]  # command, date, versions
    models: list[Model]
    against: dict[str, str] | None = optional()  # name, checkpoint and hash of the other model


class Shown(TypedDict):
    """Attention weights of a component for a sentence, in the report."""

    queries: list[str]
    keys: list[str]
    weights: str  # (layers, heads, queries, keys) as round(255 w), in base64


class Sentence(TypedDict):
    """A sentence that the report shows."""

    number: int  # as in the data
    components: dict[str, Shown]


class Analysis(NamedTuple):
    """The measures of a model, and the sentences that the report shows."""

    result: Model
    sentences: list[Sentence]


def to_json(value: Any) -> Any:
    """Return a result as dictionaries and lists."""
    if is_dataclass(value):
        rows = ((f, getattr(value, f.name)) for f in fields(value))
        return {
            f.metadata.get("name", f.name): to_json(item)
            for f, item in rows
            if item is not None or "optional" not in f.metadata
        }
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value
