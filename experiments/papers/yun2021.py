"""Yun et al. 2021, *Analyzing and Controlling Inter-Head Diversity*: Tables 1-7, Figs. 2-4."""

from experiments.experiments import Cell, Experiment, Figure, Row, Table, rows

DE_EN = Experiment("iwslt17_de_en")

# By width, BLEU by number of heads.
_GRID = {
    64: {1: 26.33, 2: 27.47},
    128: {1: 31.30, 2: 32.75, 4: 31.71},
    256: {1: 32.63, 2: 33.23, 4: 33.42, 8: 33.62},
    512: {1: 33.33, 2: 33.42, 4: 33.90, 8: 33.67, 16: 32.69},
}
_HEADS = (1, 2, 4, 8, 16)


def sized(width: int, heads: int) -> Experiment:
    """Return the training with a width and a number of heads."""
    return DE_EN.but(width=width, heads=heads)


TABLE_1 = Table(
    name="table-1",
    title="BLEU by width d and number of heads H (IWSLT17 De-En)",
    columns=tuple(f"H={heads}" for heads in _HEADS),
    rows=tuple(
        Row(
            f"d{width}",
            f"d={width}",
            tuple(
                Cell(sized(width, heads), "bleu", by_heads[heads]) if heads in by_heads else None
                for heads in _HEADS
            ),
        )
        for width, by_heads in _GRID.items()
    ),
    notes=(
        "The widths are the paper's; the small scale takes a quarter of them, smoke an eighth.",
    ),
)

SINGLE = sized(512, 1)


def _beside(component: str, *values: float) -> tuple[Cell, ...]:
    return tuple(
        Cell(sized(512, heads), f"against.{component}", value, SINGLE)
        for heads, value in zip(_HEADS, values, strict=True)
    )


TABLE_2 = Table(
    name="table-2",
    title="SVCCA against the single-head model, last layers (IWSLT17 De-En, d=512)",
    columns=tuple(f"H={heads}" for heads in _HEADS),
    rows=(
        Row("enc-self", "encoder self", _beside("encoder", 0.448, 0.407, 0.374, 0.272, 0.202)),
        Row("dec-self", "decoder self", _beside("decoder", 0.474, 0.400, 0.353, 0.328, 0.237)),
        Row("enc-dec", "encoder-decoder", _beside("cross", 0.429, 0.378, 0.319, 0.289, 0.189)),
    ),
    notes=(
        "All heads of a module side by side against those of the single-head model, which is "
        "trained with the next seed; the paper does not say how H=1 differs from itself.",
    ),
)

# The paper's two numbers, and other readings that it has no numbers for.
_SIMILARITIES = ("svcca", "cka", "svcca.top", "svcca.all", "cka.all")
_SIMILARITY_COLUMNS = ("SVCCA", "CKA", "SVCCA top", "SVCCA all", "CKA all")

TABLE_3 = Table(
    name="table-3",
    title="Inter-head similarity by number of heads and width (IWSLT17 De-En)",
    columns=_SIMILARITY_COLUMNS,
    rows=rows(
        _SIMILARITIES,
        ("2h-64d", "2H-64d", sized(64, 2), 0.793, 0.553),
        ("2h-128d", "2H-128d", sized(128, 2), 0.712, 0.488),
        ("2h-512d", "2H-512d", sized(512, 2), 0.559, 0.344),
        ("4h-128d", "4H-128d", sized(128, 4), 0.504, 0.277),
        ("4h-256d", "4H-256d", sized(256, 4), 0.541, 0.309),
        ("4h-512d", "4H-512d", sized(512, 4), 0.560, 0.277),
        ("8h-256d", "8H-256d", sized(256, 8), 0.346, 0.143),
        ("8h-512d", "8H-512d", sized(512, 8), 0.419, 0.197),
        ("16h-512d", "16H-512d", sized(512, 16), 0.252, 0.117),
    ),
)

_METHODS = (
    ("baseline", "Baseline", "baseline"),
    ("drophead", "+ Drophead", "drophead"),
    ("ortho", "+ ortho", "orthogonality"),
    ("hsic", "+ HSIC", "hsic"),
    ("all", "+ All", "all_three"),
)


def _by_method(
    corpora: tuple[Experiment, ...], measure: str, *values: tuple[float, ...]
) -> tuple[Row, ...]:
    entries = (
        (name, label, tuple(corpus.but(method=method) for corpus in corpora), *row)
        for (name, label, method), row in zip(_METHODS, values, strict=True)
    )
    return rows((measure,) * len(corpora), *entries)


def _both_directions(corpus: str) -> tuple[Experiment, Experiment]:
    return Experiment(corpus), Experiment(corpus, reverse=True)


TABLE_4 = Table(
    name="table-4",
    title="Controlling methods (IWSLT17), BLEU",
    columns=("De-En", "En-De"),
    rows=_by_method(
        _both_directions("iwslt17_de_en"),
        "bleu",
        *((33.67, 29.76), (34.26, 30.13), (34.03, 30.27), (34.43, 30.32), (34.53, 30.38)),
    ),
)


def _set(method: str, name: str | None = None, value: float | None = None) -> Experiment:
    return DE_EN.but({name: value} if name else {}, method=method)


_WEIGHT, _HSIC_WEIGHT = "criterion.orthogonality_weight", "criterion.hsic_weight"
_CONTROLLED = (
    ("baseline", "Baseline", DE_EN, 0.397, 0.199),
    ("drophead-0.1", "Drophead 0.1", _set("drophead"), 0.415, 0.207),
    ("drophead-0.3", "Drophead 0.3", _set("drophead", "model.drophead", 0.3), 0.534, 0.317),
    ("drophead-0.5", "Drophead 0.5", _set("drophead", "model.drophead", 0.5), 0.709, 0.527),
    ("ortho-0.1", "ortho 0.1", _set("orthogonality", _WEIGHT, 0.1), 0.408, 0.208),
    ("ortho-1.0", "ortho 1.0", _set("orthogonality"), 0.407, 0.223),
    ("ortho-10", "ortho 10.0", _set("orthogonality", _WEIGHT, 10.0), 0.420, 0.366),
    ("hsic-1e-8", "HSIC 1e-8", _set("hsic", _HSIC_WEIGHT, 1e-8), 0.364, 0.182),
    ("hsic-1e-7", "HSIC 1e-7", _set("hsic"), 0.338, 0.158),
    ("hsic-1e-6", "HSIC 1e-6", _set("hsic", _HSIC_WEIGHT, 1e-6), 0.325, 0.125),
)

TABLE_5 = Table(
    name="table-5",
    title="Inter-head similarity under the controlling methods (IWSLT17 De-En)",
    columns=_SIMILARITY_COLUMNS,
    rows=rows(_SIMILARITIES, *_CONTROLLED),
)

TABLE_6 = Table(
    name="table-6",
    title="Controlling methods (WMT17 De-En, UN Ru-En, UN Zh-En), BLEU",
    columns=("De-En", "En-De", "Ru-En", "En-Ru", "Zh-En", "En-Zh"),
    rows=_by_method(
        (
            *_both_directions("wmt17_de_en"),
            *_both_directions("un_ru_en"),
            *_both_directions("un_zh_en"),
        ),
        "bleu",
        (31.47, 25.69, 52.68, 44.62, 52.21, 47.08),
        (31.69, 25.73, 52.90, 44.82, 52.60, 47.09),
        (31.63, 25.86, 52.92, 44.86, 52.55, 47.28),
        (31.57, 25.89, 52.89, 44.82, 52.54, 47.16),
        (31.76, 25.91, 53.02, 45.23, 52.69, 47.33),
    ),
    scales=("smoke", "paper"),
    notes=("At the smoke scale one corpus stands for all three.",),
)

TABLE_7 = Table(
    name="table-7",
    title="Controlling methods in a language model (Penn Treebank), perplexity",
    columns=("perplexity",),
    rows=_by_method(
        (Experiment("ptb"),), "perplexity", *((120.38,), (102.72,), (102.62,), (101.89,), (102.07,))
    ),
)


def _curve(heads: int, width: int) -> tuple[str, Experiment]:
    return f"{heads}_H_{width}_d", sized(width, heads)


FIGURE_2 = Figure(
    name="figure-2",
    title="SVCCA coefficients against the single-head model (IWSLT17 De-En, d=512)",
    measure="against.encoder",
    curves=tuple(_curve(heads, 512) for heads in _HEADS),
    against=SINGLE,
    notes=TABLE_2.notes,
)

_ONLY_CROSS = (
    "The last layer of the encoder-decoder attention, the only module of which the paper reports "
    "results (section 5.2)."
)

FIGURE_3 = Figure(
    name="figure-3",
    title="SVCCA coefficients between heads, by number of heads and width (IWSLT17 De-En)",
    measure="svcca",
    curves=tuple(
        _curve(heads, width) for width, by_heads in _GRID.items() for heads in by_heads if heads > 1
    ),
    panels=(
        ("(a) d/H = 32", ("2_H_64_d", "4_H_128_d", "8_H_256_d", "16_H_512_d")),
        ("(b) d/H = 64", ("2_H_128_d", "4_H_256_d", "8_H_512_d")),
        ("(c) d = 512", ("2_H_512_d", "4_H_512_d", "8_H_512_d", "16_H_512_d")),
        ("(d) H = 4", ("4_H_128_d", "4_H_256_d", "4_H_512_d")),
    ),
    notes=(_ONLY_CROSS,),
)

FIGURE_4 = Figure(
    name="figure-4",
    title="SVCCA coefficients between heads under the controlling methods (IWSLT17 De-En)",
    measure="svcca",
    curves=tuple((label, experiment) for _, label, experiment, _, _ in _CONTROLLED),
    panels=(
        ("(a) Drophead", ("Baseline", "Drophead 0.1", "Drophead 0.3", "Drophead 0.5")),
        ("(b) ortho", ("Baseline", "ortho 0.1", "ortho 1.0", "ortho 10.0")),
        ("(c) HSIC", ("Baseline", "HSIC 1e-8", "HSIC 1e-7", "HSIC 1e-6")),
    ),
    notes=(
        _ONLY_CROSS,
        "The paper's panel (d), on the leading coefficients under the orthogonality loss (section "
        "6.2), is not drawn; (b) has all of these curves.",
    ),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7)
ITEMS = (*TABLES, FIGURE_2, FIGURE_3, FIGURE_4)
