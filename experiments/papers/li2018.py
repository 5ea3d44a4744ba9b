"""Li et al. 2018, *Multi-Head Attention with Disagreement Regularization*: Tables 1 to 5."""

from experiments.experiments import Experiment, Table, rows

ZH_EN = Experiment("wmt17_zh_en")
EN_DE = Experiment("wmt14_en_de")
ENCODER = {"criterion.disagreement_on": "encoder"}
#: By row of Table 1, the training with these terms on the encoder.
ON_ENCODER = {
    "none": ZH_EN,
    "sub": ZH_EN.but(ENCODER, method="disagreement_subspace"),
    "pos": ZH_EN.but(ENCODER, method="disagreement_position"),
    "out": ZH_EN.but(ENCODER, method="disagreement_output"),
    "sub+out": ZH_EN.but(ENCODER, method="disagreement_subspace_output"),
    "sub+pos": ZH_EN.but(ENCODER, method="disagreement_subspace_position"),
    "sub+pos+out": ZH_EN.but(ENCODER, method="disagreement_all"),
}
_SPEED_AND_BLEU = ("speed", "bleu")

TABLE_1 = Table(
    name="table-1",
    title="Regularisation terms, on encoder self-attention (WMT17 Zh-En, Base)",
    columns=("speed", "BLEU"),
    baseline="none",
    rows=rows(
        _SPEED_AND_BLEU,
        ("none", "Base", ON_ENCODER["none"], 1.21, 24.13),
        ("sub", "+ Sub.", ON_ENCODER["sub"], 1.15, 24.64),
        ("pos", "+ Pos.", ON_ENCODER["pos"], 1.14, 24.42),
        ("out", "+ Out.", ON_ENCODER["out"], 1.15, 24.78),
        ("sub+out", "+ Sub. + Out.", ON_ENCODER["sub+out"], 1.12, 24.73),
        ("sub+pos", "+ Sub. + Pos.", ON_ENCODER["sub+pos"], 1.11, 24.38),
        ("sub+pos+out", "+ Sub. + Pos. + Out.", ON_ENCODER["sub+pos+out"], 1.05, 24.60),
    ),
)

_OUTPUT = "disagreement_output"


def _output_on(components: str) -> Experiment:
    return ZH_EN.but({"criterion.disagreement_on": components}, method=_OUTPUT)


TABLE_2 = Table(
    name="table-2",
    title="Attention components with the output term (WMT17 Zh-En, Base)",
    columns=("speed", "BLEU"),
    baseline="none",
    rows=rows(
        _SPEED_AND_BLEU,
        ("none", "none", ZH_EN, 1.21, 24.13),
        ("enc", "Enc", ON_ENCODER["out"], 1.15, 24.78),
        ("enc+e-d", "Enc, E-D", _output_on("encoder,cross"), 1.10, 24.67),
        ("enc+dec", "Enc, Dec", _output_on("encoder,decoder"), 1.11, 24.69),
        ("enc+e-d+dec", "Enc, E-D, Dec", ZH_EN.but(method=_OUTPUT), 1.06, 24.85),
    ),
)


def _both(size: str, method: str = "baseline") -> tuple[Experiment, ...]:
    return tuple(corpus.but(size=size, method=method) for corpus in (ZH_EN, ZH_EN, EN_DE, EN_DE))


TABLE_3 = Table(
    name="table-3",
    title="Disagreement with Base and Big (WMT17 Zh-En, WMT14 En-De)",
    columns=("Zh-En speed", "Zh-En BLEU", "En-De speed", "En-De BLEU"),
    baseline="base",
    rows=rows(
        _SPEED_AND_BLEU * 2,
        ("base", "Transformer-Base", _both("base"), 1.21, 24.13, 1.28, 27.64),
        ("base+disagreement", "+ Disagreement", _both("base", _OUTPUT), 1.06, 24.85, 1.10, 28.51),
        ("big", "Transformer-Big", _both("big"), 0.58, 24.56, 0.61, 28.58),
        ("big+disagreement", "+ Disagreement", _both("big", _OUTPUT), 0.47, 25.08, 0.51, 29.28),
    ),
)

TABLE_4 = Table(
    name="table-4",
    title="Disagreement scores exp(D) of the encoder over the validation set (WMT17 Zh-En)",
    columns=("Sub.", "Pos.", "Out."),
    rows=rows(
        ("exp_d.subspace", "exp_d.position", "exp_d.output"),
        ("none", "none", ON_ENCODER["none"], 0.882, 0.007, 0.881),
        ("sub", "Subspace", ON_ENCODER["sub"], 0.999, 0.006, 0.935),
        ("pos", "Position", ON_ENCODER["pos"], 0.882, 0.219, 0.882),
        ("out", "Output", ON_ENCODER["out"], 0.989, 0.006, 0.997),
    ),
    notes=("H perpendicular heads score exp(-1/H) in Sub. and Out.: 0.882 with 8, 0.779 with 4.",),
)

TABLE_5 = Table(
    name="table-5",
    title="exp(D) on positions by encoder layer (WMT17 Zh-En)",
    columns=tuple(f"layer {number}" for number in range(1, 7)),
    rows=rows(
        tuple(f"exp_d.position.{number}" for number in range(1, 7)),
        ("none", "none", ON_ENCODER["none"], 0.040, 0.009, 0.002, 0.003, 0.008, 0.006),
        ("sub", "Subspace", ON_ENCODER["sub"], 0.039, 0.009, 0.001, 0.003, 0.006, 0.005),
        ("pos", "Position", ON_ENCODER["pos"], 0.217, 0.167, 0.219, 0.242, 0.233, 0.249),
        ("out", "Output", ON_ENCODER["out"], 0.048, 0.009, 0.002, 0.003, 0.008, 0.006),
    ),
    notes=("At the small scale the encoder has four layers, and a dash stands for the others.",),
)

ITEMS = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5)
