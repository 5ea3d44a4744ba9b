"""Li et al. 2021, *On the diversity of multi-head attention*: Tables 3 to 7, Figs. 3 and 4."""

from diverse_mha.corpora.probing import TASKS
from experiments.experiments import Experiment, Figure, Row, Table, rows
from experiments.papers.li2018 import EN_DE, ON_ENCODER, ZH_EN

_SIZED = ("parameters", "speed", "bleu")


def _with(method: str) -> Experiment:
    return EN_DE.but(method=method)


def _em_layers(layers: str) -> Experiment:
    return EN_DE.but({"model.aggregation_encoder_layers": layers}, method="em_routing_encoder")


TABLE_3 = Table(
    name="table-3",
    title="Routing algorithms and attention components (WMT14 En-De, Base)",
    columns=("parameters", "speed", "BLEU"),
    baseline="none",
    rows=rows(
        _SIZED,
        ("none", "none", EN_DE, 88.0e6, 1.92, 27.31),
        ("enc-simple", "Enc, Simple", _with("simple_routing_encoder"), 100.6e6, 1.23, 27.98),
        ("enc-em", "Enc, EM", _with("em_routing_encoder"), 100.6e6, 1.20, 28.28),
        ("e-d-em", "E-D, EM", _with("em_routing_cross"), 100.6e6, 1.20, 27.94),
        ("dec-em", "Dec, EM", _with("em_routing_decoder"), 100.6e6, 1.21, 28.15),
        ("enc+e-d-em", "Enc, E-D, EM", _with("em_routing_encoder_cross"), 113.2e6, 0.87, 28.45),
        ("all-em", "Enc, E-D, Dec, EM", _with("em_routing_everywhere"), 125.8e6, 0.66, 28.47),
    ),
)

TABLE_4 = Table(
    name="table-4",
    title="Encoder layers with EM routing (WMT14 En-De, Base)",
    columns=("parameters", "speed", "BLEU"),
    baseline="none",
    rows=rows(
        _SIZED,
        # A comma would part two names on the command line.
        ("none", "none", EN_DE, 88.0e6, 1.92, 27.31),
        ("1-6", "1-6", _with("em_routing_encoder"), 100.6e6, 1.20, 28.28),
        ("4-6", "4-6", _em_layers("4,5,6"), 94.3e6, 1.54, 28.26),
        ("1-3", "1-3", _em_layers("1,2,3"), 94.3e6, 1.54, 28.27),
        # The method of the later tables.
        ("1+2", "1,2", _with("em_routing_1_2"), 92.2e6, 1.67, 28.26),
        ("6", "6", _em_layers("6"), 90.1e6, 1.88, 27.68),
        ("1", "1", _em_layers("1"), 90.1e6, 1.88, 27.75),
    ),
    settings={"small": {"model.encoder_layers": 6}},
    notes=("At the small scale the encoder has six layers here, so that the rows exist.",),
)

# What a row's name and label end with, and the method.
_METHODS = (
    ("", "", "baseline"),
    ("+disagreement", "+ Disagreement", "disagreement_output"),
    ("+aggregation", "+ Aggregation", "em_routing_1_2"),
    ("+both", "+ Both", "both"),
)


def _by_method(
    name: str, size: str, corpora: tuple[Experiment, ...], *values: tuple[float, ...]
) -> tuple[Row, ...]:
    """Return the rows of a size: of each corpus the parameters and BLEU of each method."""
    entries = []
    for (suffix, label, method), row in zip(_METHODS, values, strict=True):
        experiments = tuple(c.but(size=size, method=method) for c in corpora for _ in range(2))
        label = label or f"Transformer-{name.title()}"
        entries.append((name + suffix, label, experiments, *row))
    return rows(("parameters", "bleu") * len(corpora), *entries)


TABLE_5 = Table(
    name="table-5",
    title="Disagreement, aggregation and both (WMT14 En-De, WMT17 Zh-En)",
    columns=("En-De parameters", "En-De BLEU", "Zh-En parameters", "Zh-En BLEU"),
    rows=(
        *_by_method(
            *("base", "base", (EN_DE, ZH_EN)),
            (88e6, 27.31, 108e6, 24.13),
            (88e6, 28.20, 108e6, 24.85),
            (92e6, 28.26, 112e6, 24.68),
            (92e6, 28.41, 112e6, 24.90),
        ),
        *_by_method(
            *("big", "big", (EN_DE, ZH_EN)),
            (264e6, 28.58, 304e6, 24.56),
            (264e6, 28.96, 304e6, 25.08),
            (297e6, 28.96, 337e6, 25.00),
            (297e6, 29.09, 337e6, 25.12),
        ),
    ),
)

TABLE_6 = Table(
    name="table-6",
    title="Big with 8 heads (WMT14 En-De)",
    columns=("parameters", "BLEU"),
    rows=_by_method(
        *("big", "big_8_heads", (EN_DE,)),
        *((264e6, 28.10), (264e6, 28.63), (288e6, 28.65), (288e6, 28.94)),
    ),
    notes=(
        "The paper's +24M for aggregation with 8 heads does not follow from its own equations, "
        "which give 16.8M.",
    ),
)

_PROBES = {
    "SeLen": (95.35, 96.47, 96.02, 96.55),
    "WC": (98.03, 98.65, 98.31, 98.87),
    "TrDep": (44.40, 46.54, 45.77, 46.93),
    "ToCo": (83.48, 84.24, 84.05, 84.17),
    "BShif": (51.45, 53.54, 50.97, 54.26),
    "Tense": (84.57, 85.03, 85.56, 86.07),
    "SubNm": (82.80, 83.15, 85.47, 85.84),
    "ObjNm": (80.31, 80.49, 82.46, 83.38),
    "SOMO": (49.87, 49.58, 50.09, 50.13),
    "CoIn": (69.39, 68.48, 70.21, 69.99),
}


def _probed(task: str) -> tuple[Experiment, ...]:
    return tuple(Experiment("probing", method, task=task) for *_, method in _METHODS)


TABLE_7 = Table(
    name="table-7",
    title="Linguistic probing, accuracy (ten tasks of Conneau et al. 2018)",
    columns=("Baseline", "Disagreement", "Aggregation", "Combine"),
    rows=rows(
        ("accuracy",) * len(_METHODS),
        *((name, name, _probed(task), *_PROBES[name]) for task, (name, _) in TASKS.items()),
    ),
    scales=("smoke", "paper"),
    notes=("At the smoke scale the labels are stand-ins, read off the surface of demo sentences.",),
)

FIGURE_3 = Figure(
    name="figure-3",
    title="t-SNE of the encoder heads' mean outputs, one colour a regulariser (WMT17 Zh-En)",
    measure=None,
    curves=(
        ("none", ON_ENCODER["none"]),
        ("Subspace", ON_ENCODER["sub"]),
        ("Position", ON_ENCODER["pos"]),
        ("Output", ON_ENCODER["out"]),
    ),
)

FIGURE_4 = Figure(
    name="figure-4",
    title="Logical inference: accuracy by the number of operators",
    measure="accuracy",
    curves=tuple(
        (label, Experiment("logic", method))
        for label, method in (
            ("Baseline", "baseline"),
            ("Disagreement", "disagreement_output"),
            ("Aggregation", "em_routing_encoder"),
            ("Combine", "both"),
        )
    ),
    notes=("The paper gives a plot only, so there are no values of its to print.",),
)

ITEMS = (TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, FIGURE_3, FIGURE_4)
