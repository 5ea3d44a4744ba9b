"""Li et al. 2018, *Multi-Head Attention with Disagreement Regularization*: Tables 1 to 5."""

from diverse_mha.training.reproduce.experiments import Cell, Experiment, Row, Table

ZH_EN = Experiment("wmt17_zh_en")
EN_DE = Experiment("wmt14_en_de")
ENCODER = {"criterion.disagreement_on": "encoder"}

_ON_ENCODER = {
    "none": ("Base", ZH_EN),
    "sub": ("+ Sub.", ZH_EN.but(ENCODER, method="disagreement_subspace")),
    "pos": ("+ Pos.", ZH_EN.but(ENCODER, method="disagreement_position")),
    "out": ("+ Out.", ZH_EN.but(ENCODER, method="disagreement_output")),
    "sub+out": ("+ Sub. + Out.", ZH_EN.but(ENCODER, method="disagreement_subspace_output")),
    "sub+pos": ("+ Sub. + Pos.", ZH_EN.but(ENCODER, method="disagreement_subspace_position")),
    "sub+pos+out": ("+ Sub. + Pos. + Out.", ZH_EN.but(ENCODER, method="disagreement_all")),
}


def _speed_and_bleu(experiment: Experiment, speed: float, bleu: float) -> tuple[Cell, Cell]:
    return Cell(experiment, "speed", speed), Cell(experiment, "bleu", bleu)


TABLE_1 = Table(
    paper="li2018",
    name="table-1",
    title="Regularisation terms, on encoder self-attention (WMT17 Zh-En, Base)",
    columns=("speed", "BLEU"),
    baseline="none",
    rows=tuple(
        Row(name, _ON_ENCODER[name][0], _speed_and_bleu(_ON_ENCODER[name][1], speed, bleu))
        for name, speed, bleu in (
            ("none", 1.21, 24.13),
            ("sub", 1.15, 24.64),
            ("pos", 1.14, 24.42),
            ("out", 1.15, 24.78),
            ("sub+out", 1.12, 24.73),
            ("sub+pos", 1.11, 24.38),
            ("sub+pos+out", 1.05, 24.60),
        )
    ),
)

_OUTPUT = "disagreement_output"
TABLE_2 = Table(
    paper="li2018",
    name="table-2",
    title="Attention components with the output term (WMT17 Zh-En, Base)",
    columns=("speed", "BLEU"),
    baseline="none",
    rows=tuple(
        Row(name, label, _speed_and_bleu(experiment, speed, bleu))
        for name, label, experiment, speed, bleu in (
            ("none", "none", ZH_EN, 1.21, 24.13),
            ("enc", "Enc", ZH_EN.but(ENCODER, method=_OUTPUT), 1.15, 24.78),
            (
                "enc+e-d",
                "Enc, E-D",
                ZH_EN.but({"criterion.disagreement_on": "encoder,cross"}, method=_OUTPUT),
                *(1.10, 24.67),
            ),
            (
                "enc+dec",
                "Enc, Dec",
                ZH_EN.but({"criterion.disagreement_on": "encoder,decoder"}, method=_OUTPUT),
                *(1.11, 24.69),
            ),
            ("enc+e-d+dec", "Enc, E-D, Dec", ZH_EN.but(method=_OUTPUT), 1.06, 24.85),
        )
    ),
)


def _main_row(name: str, label: str, changes: dict, zh_en: tuple, en_de: tuple) -> Row:
    cells = _speed_and_bleu(ZH_EN.but(**changes), *zh_en)
    return Row(name, label, cells + _speed_and_bleu(EN_DE.but(**changes), *en_de))


TABLE_3 = Table(
    paper="li2018",
    name="table-3",
    title="Disagreement with Base and Big (WMT17 Zh-En, WMT14 En-De)",
    columns=("Zh-En speed", "Zh-En BLEU", "En-De speed", "En-De BLEU"),
    baseline="base",
    rows=(
        _main_row("base", "Transformer-Base", {}, (1.21, 24.13), (1.28, 27.64)),
        _main_row(
            *("base+disagreement", "+ Disagreement", {"method": _OUTPUT}),
            *((1.06, 24.85), (1.10, 28.51)),
        ),
        _main_row("big", "Transformer-Big", {"size": "big"}, (0.58, 24.56), (0.61, 28.58)),
        _main_row(
            *("big+disagreement", "+ Disagreement", {"size": "big", "method": _OUTPUT}),
            *((0.47, 25.08), (0.51, 29.28)),
        ),
    ),
)

TABLE_4 = Table(
    paper="li2018",
    name="table-4",
    title="Disagreement scores exp(D) of the encoder over the validation set (WMT17 Zh-En)",
    columns=("Sub.", "Pos.", "Out."),
    rows=tuple(
        Row(
            name,
            label,
            tuple(
                Cell(_ON_ENCODER[name][1], f"exp_d.{score}", value)
                for score, value in zip(("subspace", "position", "output"), values, strict=True)
            ),
        )
        for name, label, values in (
            ("none", "none", (0.882, 0.007, 0.881)),
            ("sub", "Subspace", (0.999, 0.006, 0.935)),
            ("pos", "Position", (0.882, 0.219, 0.882)),
            ("out", "Output", (0.989, 0.006, 0.997)),
        )
    ),
    notes=("H perpendicular heads score exp(-1/H) in Sub. and Out.: 0.882 with 8, 0.779 with 4.",),
)

TABLE_5 = Table(
    paper="li2018",
    name="table-5",
    title="exp(D) on positions by encoder layer (WMT17 Zh-En)",
    columns=tuple(f"layer {number}" for number in range(1, 7)),
    rows=tuple(
        Row(
            name,
            label,
            tuple(
                Cell(_ON_ENCODER[name][1], f"exp_d.position.{number}", value)
                for number, value in enumerate(values, start=1)
            ),
        )
        for name, label, values in (
            ("none", "none", (0.040, 0.009, 0.002, 0.003, 0.008, 0.006)),
            ("sub", "Subspace", (0.039, 0.009, 0.001, 0.003, 0.006, 0.005)),
            ("pos", "Position", (0.217, 0.167, 0.219, 0.242, 0.233, 0.249)),
            ("out", "Output", (0.048, 0.009, 0.002, 0.003, 0.008, 0.006)),
        )
    ),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5)
FIGURES = ()
