"""Zheng et al. 2021, *Cascaded Head-colliding Attention*: Tables 1 to 4 and the heat maps."""

from diverse_mha.training.reproduce.experiments import Cell, Experiment, Figure, Row, Table

COMPOUNDS = "BLEU at the paper's scale: tokenised, with compounds split (appendix A.1)."
WIKI103 = Experiment("wiki103")
IWSLT14 = Experiment("iwslt14_de_en", size="iwslt")
WMT14 = Experiment("wmt14_en_de_google")


def _language_model(name: str, label: str, experiment: Experiment | None, values: tuple) -> Row:
    measures = ("parameters", "lm_valid_perplexity", "perplexity")
    cells = (Cell(experiment, m, v) for m, v in zip(measures, values, strict=True))
    return Row(name, label, tuple(cells))


TABLE_1 = Table(
    paper="zheng2021",
    name="table-1",
    title="Language modelling (WikiText-103)",
    columns=("parameters", "valid ppl", "test ppl"),
    rows=(
        _language_model("transformer", "Transformer", WIKI103, (246.93e6, 18.35, 19.08)),
        _language_model(
            *("transformer-published", "Transformer, 3072/2560 (Baevski and Auli 2019)"),
            *(None, (246.93e6, 17.97, 18.70)),
        ),
        _language_model("coda", "CODA", WIKI103.but(method="coda"), (246.96e6, 17.81, 18.48)),
    ),
    notes=("The second row is quoted in the paper, and not trained here.",),
)


def _translation_row(name: str, label: str, method: str, wmt14: tuple, iwslt14: tuple) -> Row:
    cells = []
    for corpus, values in ((WMT14, wmt14), (IWSLT14, iwslt14)):
        for measure, value in zip(("parameters", "bleu"), values, strict=True):
            cells.append(Cell(corpus.but(method=method), measure, value))
    return Row(name, label, tuple(cells))


TABLE_2 = Table(
    paper="zheng2021",
    name="table-2",
    title="Translation (WMT14 En-De, IWSLT14 De-En)",
    columns=("WMT14 parameters", "WMT14 BLEU", "IWSLT14 parameters", "IWSLT14 BLEU"),
    rows=(
        _translation_row(
            *("transformer", "Transformer", "baseline"), (60.92e6, 27.4), (39.47e6, 34.5)
        ),
        _translation_row(*("coda", "CODA", "coda"), (60.94e6, 28.0), (39.48e6, 35.65)),
    ),
    notes=(COMPOUNDS,),
)

TABLE_3 = Table(
    paper="zheng2021",
    name="table-3",
    title="Number of heads (IWSLT14 De-En): test BLEU and validation perplexity",
    columns=("Transformer BLEU", "CODA BLEU", "Transformer ppl", "CODA ppl"),
    rows=tuple(
        Row(
            f"heads-{heads}",
            f"{heads} heads",
            tuple(
                Cell(IWSLT14.but(method=method, heads=heads), measure, value)
                for method, measure, value in (
                    ("baseline", "bleu", bleu[0]),
                    ("coda", "bleu", bleu[1]),
                    ("baseline", "valid_perplexity", perplexity[0]),
                    ("coda", "valid_perplexity", perplexity[1]),
                )
            ),
        )
        for heads, bleu, perplexity in (
            (4, (34.53, 35.65), (4.95, 4.64)),
            (8, (34.35, 35.74), (5.04, 4.54)),
            (16, (33.91, 35.84), (5.15, 4.55)),
            (32, (33.17, 35.96), (5.37, 4.52)),
        )
    ),
    notes=(COMPOUNDS,),
)

_ABLATIONS = (
    ("coda", "CODA", "coda", 13.72, 35.65),
    ("coda-cs", "CODA-CS", "coda_cs", 11.24, 35.17),
    ("realformer", "RealFormer", "realformer", 8.53, 35.01),
    ("transformer", "Transformer", "baseline", 7.11, 34.53),
)

TABLE_4 = Table(
    paper="zheng2021",
    name="table-4",
    title="Ablations (IWSLT14 De-En)",
    columns=("average JSD", "BLEU"),
    rows=tuple(
        Row(
            name,
            label,
            (
                Cell(IWSLT14.but(method=method), "jsd", jsd),
                Cell(IWSLT14.but(method=method), "bleu", bleu),
            ),
        )
        for name, label, method, jsd, bleu in _ABLATIONS
    ),
    notes=(COMPOUNDS,),
)


def _heat_map(number: int, title: str, curves: tuple[tuple[str, Experiment], ...]) -> Figure:
    return Figure(
        paper="zheng2021",
        name=f"figure-{number}",
        title=f"JSD of every pair of heads, by layer ({title})",
        kind="heat_maps",
        curves=curves,
    )


def _pair(experiment: Experiment) -> tuple[tuple[str, Experiment], ...]:
    return ("Transformer", experiment), ("CODA", experiment.but(method="coda"))


FIGURES = (
    _heat_map(2, "WikiText-103", _pair(WIKI103)),
    _heat_map(
        4,
        "IWSLT14 De-En, ablations",
        tuple((label, IWSLT14.but(method=method)) for _, label, method, _, _ in _ABLATIONS[::-1]),
    ),
    _heat_map(5, "IWSLT14 De-En", _pair(IWSLT14)),
    _heat_map(6, "WMT14 En-De", _pair(WMT14)),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4)
