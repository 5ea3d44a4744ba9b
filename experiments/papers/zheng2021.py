"""Zheng et al. 2021, *Cascaded Head-colliding Attention*: Tables 1 to 4 and the heat maps."""

from experiments.experiments import Experiment, Figure, Table, rows

COMPOUNDS = "BLEU at the paper's scale: tokenised, with compounds split (appendix A.1)."
WIKI103 = Experiment("wiki103")
IWSLT14 = Experiment("iwslt14_de_en", size="iwslt")
WMT14 = Experiment("wmt14_en_de_google")

TABLE_1 = Table(
    name="table-1",
    title="Language modelling (WikiText-103)",
    columns=("parameters", "valid ppl", "test ppl"),
    rows=rows(
        ("parameters", "lm_valid_perplexity", "perplexity"),
        ("transformer", "Transformer", WIKI103, 246.93e6, 18.35, 19.08),
        (
            *("transformer-published", "Transformer, 3072/2560 (Baevski and Auli 2019)"),
            *(None, 246.93e6, 17.97, 18.70),
        ),
        ("coda", "CODA", WIKI103.but(method="coda"), 246.96e6, 17.81, 18.48),
    ),
    notes=("The second row is quoted in the paper, and not trained here.",),
)


def _both(method: str) -> tuple[Experiment, ...]:
    return tuple(corpus.but(method=method) for corpus in (WMT14, WMT14, IWSLT14, IWSLT14))


TABLE_2 = Table(
    name="table-2",
    title="Translation (WMT14 En-De, IWSLT14 De-En)",
    columns=("WMT14 parameters", "WMT14 BLEU", "IWSLT14 parameters", "IWSLT14 BLEU"),
    rows=rows(
        ("parameters", "bleu") * 2,
        ("transformer", "Transformer", _both("baseline"), 60.92e6, 27.4, 39.47e6, 34.5),
        ("coda", "CODA", _both("coda"), 60.94e6, 28.0, 39.48e6, 35.6),
    ),
    notes=(COMPOUNDS,),
)


def _heads(number: int) -> tuple[Experiment, ...]:
    methods = "baseline", "coda", "baseline", "coda"
    return tuple(IWSLT14.but(method=method, heads=number) for method in methods)


TABLE_3 = Table(
    name="table-3",
    title="Number of heads (IWSLT14 De-En): test BLEU and validation perplexity",
    columns=("Transformer BLEU", "CODA BLEU", "Transformer ppl", "CODA ppl"),
    rows=rows(
        ("bleu", "bleu", "valid_perplexity", "valid_perplexity"),
        ("heads-4", "4 heads", _heads(4), 34.53, 35.65, 4.95, 4.64),
        ("heads-8", "8 heads", _heads(8), 34.35, 35.74, 5.04, 4.54),
        ("heads-16", "16 heads", _heads(16), 33.91, 35.84, 5.15, 4.55),
        ("heads-32", "32 heads", _heads(32), 33.17, 35.96, 5.37, 4.52),
    ),
    notes=(COMPOUNDS,),
)

_ABLATIONS = (
    ("coda", "CODA", IWSLT14.but(method="coda"), 13.72, 35.65),
    ("coda-cs", "CODA-CS", IWSLT14.but(method="coda_cs"), 11.24, 35.17),
    ("realformer", "RealFormer", IWSLT14.but(method="realformer"), 8.53, 35.01),
    ("transformer", "Transformer", IWSLT14, 7.11, 34.53),
)

TABLE_4 = Table(
    name="table-4",
    title="Ablations (IWSLT14 De-En)",
    columns=("average JSD", "BLEU"),
    rows=rows(("jsd", "bleu"), *_ABLATIONS),
    notes=(COMPOUNDS,),
)


def _heat_map(number: int, title: str, curves: tuple[tuple[str, Experiment], ...]) -> Figure:
    return Figure(
        name=f"figure-{number}",
        title=f"JSD of every pair of heads, by layer ({title})",
        measure="jsd",
        curves=curves,
    )


def _pair(experiment: Experiment) -> tuple[tuple[str, Experiment], ...]:
    return ("Transformer", experiment), ("CODA", experiment.but(method="coda"))


ITEMS = (
    *(TABLE_1, TABLE_2, TABLE_3, TABLE_4),
    _heat_map(2, "WikiText-103", _pair(WIKI103)),
    _heat_map(
        4,
        "IWSLT14 De-En, ablations",
        tuple((label, experiment) for _, label, experiment, _, _ in _ABLATIONS[::-1]),
    ),
    _heat_map(5, "IWSLT14 De-En", _pair(IWSLT14)),
    _heat_map(6, "WMT14 En-De", _pair(WMT14)),
)
