"""What the cells of the tables hold: how each is read off a result, named and written."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Measure:
    """One kind of number.

    Attributes:
        form: How it is written.
        read: Takes it out of a run's result, or out of the heads file where ``heads`` is set.
        heads: The options of ``diverse-mha analyze`` that give it, or empty.
        against: Whether it compares a run with another one.
        relative: Whether its ratio to the baseline row is printed, too.
        notes: What must be known to compare it with the papers'.
    """

    form: Callable[[float], str]
    read: Callable[[Mapping], float | None]
    heads: Mapping[str, str] = field(default_factory=dict)
    against: bool = False
    relative: bool = False
    notes: tuple[str, ...] = ()


def _decimals(count: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{count}f}"


def _millions(value: float) -> str:
    # Small models would round to nothing.
    return f"{value / 1e6:.2f}M" if value >= 1e6 else f"{value / 1e3:.1f}K"


def _path(*names: str) -> Callable[[Mapping], float | None]:
    def read(content: Mapping) -> float | None:
        for name in names:
            if not isinstance(content, Mapping) or name not in content:
                return None
            content = content[name]
        return content

    return read


def _bleu(result: Mapping) -> float | None:
    """Read tokenised BLEU; of a corpus that its paper scores with compounds split, that one."""
    test = result["scores"].get("test", {})
    return test.get("compound_split_bleu", test.get("tokenised_bleu"))


def _test_accuracy(first: int, last: int) -> Callable[[Mapping], float | None]:
    """Accuracy over the test sets of these lengths; ``test`` without a length is in all."""

    def read(result: Mapping) -> float | None:
        subsets = result["scores"].get("accuracy", {}).get("subsets", {})
        lengths = {n: re.fullmatch(r"test(\d*)", n) for n in subsets}
        wanted = [n for n, m in lengths.items() if m and first <= int(m[1] or first) <= last]
        test = [subsets[name] for name in wanted]
        examples = sum(s["examples"] for s in test)
        return sum(s["accuracy"] * s["examples"] for s in test) / examples if test else None

    return read


def _head(read: Callable[[Mapping], float | None]) -> Callable[[Mapping], float | None]:
    return lambda content: read(content["models"][0])


MEASURES: dict[str, Measure] = {
    "bleu": Measure(_decimals(2), _bleu),
    "sacrebleu": Measure(_decimals(2), _path("scores", "test", "sacrebleu")),
    "parameters": Measure(_millions, _path("parameters")),
    "speed": Measure(_decimals(2), _path("steps_per_second"), relative=True),
    "perplexity": Measure(_decimals(2), _path("scores", "test", "perplexity")),
    "lm_valid_perplexity": Measure(_decimals(2), _path("scores", "valid", "perplexity")),
    "valid_perplexity": Measure(_decimals(2), _path("valid_perplexity")),
    "accuracy": Measure(_decimals(2), _test_accuracy(0, 99)),
    "accuracy.seen": Measure(_decimals(2), _test_accuracy(0, 6)),
    "accuracy.unseen": Measure(_decimals(2), _test_accuracy(7, 99)),
    "cost": Measure(
        _decimals(3),
        _path("processor_seconds_per_update"),
        relative=True,
        notes=(
            "Cost: processor seconds of an update, validation included; other programs on the "
            "machine change it by some per cent.",
        ),
    ),
    "jsd": Measure(
        _decimals(2),
        _head(_path("summary", "jsd", "mean")),
        {"measures": "jsd"},
        notes=("JSD: nats, summed over the rows of a sentence, mean over pairs and modules.",),
    ),
}
_CROSS = (
    "SVCCA and CKA: last layer of the encoder-decoder attention, over the validation set; the "
    "paper reports no other module there (section 5.2)."
)
_ALL = "all: mean over the last layers of the three attention modules; not in the paper."
_READING = (
    "SVCCA: mean of all canonical correlations between the directions that cover 99 % of each "
    "head's variance. top: of those only the leading ones that cover 98 % of their sum, the other "
    "reading of the paper's section 3.2."
)


def _last_cross(measure: str, key: str) -> Callable[[Mapping], float | None]:
    def read(model: Mapping) -> float | None:
        layers = model["components"]["cross"]["layers"]  # one: the last
        return _path(measure, key)(list(layers.values())[-1])

    return read


def _similarity(measure: str, read: Callable[[Mapping], float | None], *notes: str) -> Measure:
    options = {"measures": measure, "layers": "last"}
    return Measure(_decimals(3), _head(read), options, notes=notes)


MEASURES |= {
    "svcca": _similarity("svcca", _last_cross("svcca", "mean"), _CROSS, _READING),
    "svcca.top": _similarity("svcca", _last_cross("svcca", "top_mean"), _READING),
    "svcca.all": _similarity("svcca", _path("summary", "svcca", "last"), _ALL),
    "cka": _similarity("cka", _last_cross("cka", "mean"), _CROSS),
    "cka.all": _similarity("cka", _path("summary", "cka", "last"), _ALL),
}
for _component in ("encoder", "cross", "decoder"):
    MEASURES[f"against.{_component}"] = Measure(
        _decimals(3),
        _head(_path("against", _component, "svcca")),
        {"measures": "svcca", "layers": "last"},
        against=True,
    )

_EXP_D = {"measures": "disagreement"}
for _score in ("subspace", "position", "output"):
    MEASURES[f"exp_d.{_score}"] = Measure(
        _decimals(3),
        _head(_path("disagreement", "encoder", _score, "all")),
        _EXP_D,
        notes=("exp(D): Li et al. 2018, encoder self-attention, over the validation set.",),
    )


def _layer(score: str, layer: int) -> Callable[[Mapping], float | None]:
    def read(model: Mapping) -> float | None:
        layers = model["disagreement"]["encoder"][score]["layers"]
        return layers[layer - 1] if layer <= len(layers) else None

    return read


for _number in range(1, 7):
    MEASURES[f"exp_d.position.{_number}"] = Measure(
        _decimals(3), _head(_layer("position", _number)), _EXP_D
    )


#: All that the study looks at, by one call of ``diverse-mha analyze``.
_HEADS = {"measures": "svcca,cka,jsd,disagreement"}


def _component(model: Mapping, preferred: str) -> str:
    """Return a component, or the only one of a model without it."""
    there = model["components"]
    return preferred if preferred in there else next(iter(there))


def _last(measure: str) -> Callable[[Mapping], float | None]:
    def read(model: Mapping) -> float | None:
        layers = model["components"][_component(model, "cross")]["layers"]
        return _path(measure, "mean")(list(layers.values())[-1])

    return read


def _exp_d(score: str) -> Callable[[Mapping], float | None]:
    def read(model: Mapping) -> float | None:
        return model["disagreement"][_component(model, "encoder")][score]["all"]

    return read


MEASURES |= {
    f"heads.{name}": Measure(_decimals(3), _head(read), _HEADS, notes=notes)
    for name, read, notes in (
        (
            "svcca",
            _last("svcca"),
            ("SVCCA and CKA: last layer, in translation of the encoder-decoder attention.",),
        ),
        ("cka", _last("cka"), ()),
        (
            "exp_d.subspace",
            _exp_d("subspace"),
            ("exp(D): Li et al. 2018, in translation of the encoder; all over validation data.",),
        ),
        ("exp_d.output", _exp_d("output"), ()),
        (
            "jsd",
            _path("summary", "jsd", "mean"),
            ("JSD: nats, summed over the rows of a sentence, mean over pairs and modules.",),
        ),
    )
}
