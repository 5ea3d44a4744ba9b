"""Measures of the tables' cells: how to read a value from a result, and how to format it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from diverse_mha.evaluation.comparison.runs import accuracy
from diverse_mha.recipes.recipe import lookup

Reader = Callable[[Mapping], float | None]


@dataclass(frozen=True)
class Measure:
    """A measure: how to read it, its format and its notes."""

    #: Function or dotted key that reads the value from a run's result. With ``heads``, it reads
    #: from the output of ``diverse-mha analyze``.
    take: Reader | str
    decimals: int | None = 3  # None: written in millions or thousands
    heads: Mapping[str, str] = field(default_factory=dict)  # options of ``diverse-mha analyze``
    notes: tuple[str, ...] = ()  # notes for comparison with the papers' values
    optional: bool = False  # True: a table is complete without it

    def read(self, content: Mapping) -> float | None:
        """Read the value from a run's result, or from the heads file if ``heads`` is set."""
        content = content["models"][0] if self.heads else content
        return lookup(content, self.take) if isinstance(self.take, str) else self.take(content)

    def form(self, value: float) -> str:
        """Format a value."""
        if self.decimals is not None:
            return f"{value:.{self.decimals}f}"
        # In millions, small models would round to 0.
        return f"{value / 1e6:.2f}M" if value >= 1e6 else f"{value / 1e3:.1f}K"


def _bleu(result: Mapping) -> float | None:
    """Return tokenised BLEU, with compounds split if the paper splits them."""
    test = result["scores"].get("test", {})
    return test.get("compound_split_bleu", test.get("tokenised_bleu"))


def _test_accuracy(first: int, last: int) -> Reader:
    """Return a function that reads the accuracy over test sets of lengths ``first`` to ``last``.

    A test set named ``test``, without a length, always counts.
    """

    def read(result: Mapping) -> float | None:
        subsets = result["scores"].get("accuracy", {}).get("subsets", {})
        lengths = {n: re.fullmatch(r"test(\d*)", n) for n in subsets}
        wanted = [n for n, m in lengths.items() if m and first <= int(m[1] or first) <= last]
        return accuracy({name: subsets[name] for name in wanted}) if wanted else None

    return read


def _component(there: Mapping, preferred: str) -> Mapping:
    """Return the preferred component's entry; the first entry if the model lacks this one."""
    return there[preferred if preferred in there else next(iter(there))]


def _last(measure: str, key: str = "mean") -> Reader:
    """Return a function that reads a similarity in the last layer of encoder-decoder attention.

    A model without it gives the last layer of its first component.
    """

    def read(model: Mapping) -> float | None:
        layers = _component(model["components"], "cross")["layers"]
        return lookup(list(layers.values())[-1], f"{measure}.{key}")

    return read


def _exp_d(score: str, layer: int | None = None) -> Reader:
    """Return a function that reads the encoder's disagreement, in all layers or one (from 1).

    A model without encoder gives that of its first component.
    """

    def read(model: Mapping) -> float | None:
        scores = _component(model["disagreement"], "encoder")[score]
        if layer is None:
            return scores["all"]
        return scores["layers"][layer - 1] if layer <= len(scores["layers"]) else None

    return read


_JSD = "summary.jsd.mean"
_JSD_NOTE = (
    "JSD: in nats, summed over a sentence's query positions, mean over pairs of heads and modules."
)
_CROSS = (
    "SVCCA and CKA: in the last layer of the encoder-decoder attention, over the validation set, "
    "as in the paper's section 5.2."
)
_READING = (
    "SVCCA: mean of all canonical correlations between the directions that cover 99 % of each "
    "head's variance. SVCCA top: mean of only the leading correlations, which cover 98 % of "
    "the sum, the other reading of the paper's section 3.2."
)
_EXP_D_NOTE = (
    "exp(D): D is the disagreement of Li et al. 2018 in encoder self-attention, over the "
    "validation set."
)

_SVCCA = {"measures": "svcca", "layers": "last"}
_CKA = {"measures": "cka", "layers": "last"}
_EXP_D = {"measures": "disagreement"}
#: All measures of the study, of all layers, by one call of ``diverse-mha analyze``.
EVERYTHING = {"measures": "svcca,cka,jsd,disagreement"}


def is_part(heads: Mapping[str, str]) -> bool:
    """Return True if ``EVERYTHING`` has what these options of ``diverse-mha analyze`` measure."""
    measures = set(heads.get("measures", "").split(","))
    known = heads.keys() <= {"measures", "layers"}
    return known and measures <= set(EVERYTHING["measures"].split(","))


MEASURES: dict[str, Measure] = {
    "bleu": Measure(_bleu, 2),
    "sacrebleu": Measure("scores.test.sacrebleu", 2),
    "parameters": Measure("parameters", None),
    "speed": Measure("steps_per_second", 2),
    "perplexity": Measure("scores.test.perplexity", 2),
    "lm_valid_perplexity": Measure("scores.valid.perplexity", 2),
    "valid_perplexity": Measure("valid_perplexity", 2),
    "accuracy": Measure(_test_accuracy(0, 99), 2),
    "accuracy.seen": Measure(_test_accuracy(0, 6), 2),
    "accuracy.unseen": Measure(_test_accuracy(7, 99), 2),
    "jsd": Measure(_JSD, 2, {"measures": "jsd"}, notes=(_JSD_NOTE,)),
    "svcca": Measure(_last("svcca"), heads=_SVCCA, notes=(_CROSS, _READING)),
    "svcca.top": Measure(_last("svcca", "top_mean"), heads=_SVCCA, notes=(_READING,)),
    "cka": Measure(_last("cka"), heads=_CKA, notes=(_CROSS,)),
    "heads.svcca": Measure(
        _last("svcca"),
        heads=EVERYTHING,
        notes=("SVCCA: in the last layer; for translation, of encoder-decoder attention.",),
    ),
    "heads.cka": Measure(
        _last("cka"),
        heads=EVERYTHING,
        notes=("CKA: in the last layer; for translation, of encoder-decoder attention.",),
    ),
    "heads.cka.all": Measure(
        "summary.cka.mean",
        heads=EVERYTHING,
        notes=("CKA: mean over all layers and attention modules.",),
    ),
    "heads.exp_d.subspace": Measure(
        _exp_d("subspace"),
        heads=EVERYTHING,
        notes=(
            "exp(D): D is the disagreement of Li et al. 2018; for translation, in the encoder.",
            "Measures of heads: over the validation set.",
        ),
    ),
    "heads.exp_d.output": Measure(_exp_d("output"), heads=EVERYTHING),
    "heads.jsd": Measure(_JSD, heads=EVERYTHING, notes=(_JSD_NOTE,)),
}
for _number in range(1, 13):
    MEASURES[f"accuracy.{_number}"] = Measure(_test_accuracy(_number, _number), 2, optional=True)
for _name in ("encoder", "cross", "decoder"):
    MEASURES[f"against.{_name}"] = Measure(f"against.{_name}.svcca", heads=_SVCCA)
for _name in ("subspace", "position", "output"):
    MEASURES[f"exp_d.{_name}"] = Measure(_exp_d(_name), heads=_EXP_D, notes=(_EXP_D_NOTE,))
for _number in range(1, 7):
    MEASURES[f"exp_d.position.{_number}"] = Measure(
        _exp_d("position", _number), heads=_EXP_D, optional=_number > 1
    )
