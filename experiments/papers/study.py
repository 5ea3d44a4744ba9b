"""Our own study (docs/study.md): the papers' methods trained to the end, with tests."""

from experiments.experiments import Experiment, Table, rows
from experiments.papers.li2018 import ENCODER

_HEADS = ("heads.svcca", "heads.cka", "heads.exp_d.subspace", "heads.exp_d.output", "heads.jsd")
_HEADINGS = ("SVCCA", "CKA", "exp(D) Sub.", "exp(D) Out.", "JSD")
_TRANSLATION = ("sacrebleu", "valid_perplexity", "parameters", *_HEADS, "cost")


def _translation(name: str, corpus: str, title: str, late: int, controls: tuple = ()) -> Table:
    """Return the table of a corpus, in which one row's term counts from update ``late`` on."""
    plain = Experiment(corpus)
    from_late = {"criterion.diversity_start": late}
    methods = (
        ("baseline", "Baseline", plain),
        ("sub", "Sub., encoder", plain.but(ENCODER, method="disagreement_subspace")),
        ("pos", "Pos., encoder", plain.but(ENCODER, method="disagreement_position")),
        ("out", "Out., encoder", plain.but(ENCODER, method="disagreement_output")),
        ("out-all", "Out., all", plain.but(method="disagreement_output")),
        (
            "out-late",
            f"Out., all, late ({late:,})",
            plain.but(from_late, method="disagreement_output"),
        ),
        ("em", "EM routing, layers 1-2", plain.but(method="em_routing_1_2")),
        ("both", "Out., all + EM routing", plain.but(method="both")),
        ("hsic-1e-8", "HSIC 1e-8", plain.but({"criterion.hsic_weight": 1e-8}, method="hsic")),
        ("hsic-1e-7", "HSIC 1e-7", plain.but(method="hsic")),
        ("drophead", "Drophead 0.1", plain.but(method="drophead")),
        ("ortho", "Orthogonality 1.0", plain.but(method="orthogonality")),
        ("all-three", "Drophead + orthogonality + HSIC", plain.but(method="all_three")),
        ("coda", "CODA", plain.but(method="coda")),
        ("coda-cs", "CODA-CS", plain.but(method="coda_cs")),
        ("realformer", "RealFormer", plain.but(method="realformer")),
    )
    return Table(
        name=name,
        title=f"All methods, {title} (Multi30k De-En, test_2016)",
        columns=("BLEU", "valid ppl", "parameters", *_HEADINGS, "cost"),
        baseline="baseline",
        tested="BLEU",
        rows=rows(_TRANSLATION, *methods, *controls),
        scales=("smoke", "small"),
        notes=("BLEU and chrF: sacreBLEU's.",),
    )


# As many parameters more than the baseline as EM routing has in two layers, but for 512.
_WIDE = Experiment("multi30k").but({"model.encoder_ffn_embed_dim": 384})
TRANSLATION = _translation(
    "translation",
    "multi30k",
    "trained to the end",
    3200,
    (("wide", "Baseline, encoder feed-forward 384", _WIDE),),
)
TRANSLATION_SMALL = _translation("translation-small", "multi30k_small", "ten epochs", 1000)

_PTB = ("perplexity", "lm_valid_perplexity", "parameters", *_HEADS, "cost")
PTB = Table(
    name="ptb",
    title="Controlling methods of Yun et al. 2021, Table 7, trained to the end (Penn Treebank)",
    columns=("test ppl", "valid ppl", "parameters", *_HEADINGS, "cost"),
    baseline="baseline",
    tested="perplexity",
    rows=rows(
        _PTB,
        ("baseline", "Baseline", Experiment("ptb"), 120.38),
        ("drophead", "Drophead", Experiment("ptb", "drophead"), 102.72),
        ("ortho", "Orthogonality", Experiment("ptb", "orthogonality"), 102.62),
        ("hsic", "HSIC", Experiment("ptb", "hsic"), 101.89),
        ("all-three", "All three", Experiment("ptb", "all_three"), 102.07),
    ),
    scales=("smoke", "small"),
)

_LOGIC = ("accuracy", "accuracy.seen", "accuracy.unseen", "parameters", *_HEADS, "cost")
LOGIC = Table(
    name="logic",
    title="Methods of Li et al. 2021, Fig. 4, trained to the end (logical inference)",
    columns=("accuracy", "up to 6", "over 6", "parameters", *_HEADINGS, "cost"),
    baseline="baseline",
    tested="accuracy",
    rows=rows(
        _LOGIC,
        ("baseline", "Baseline", Experiment("logic")),
        ("disagreement", "Disagreement", Experiment("logic", "disagreement_output")),
        ("aggregation", "Aggregation", Experiment("logic", "em_routing_encoder")),
        ("both", "Both", Experiment("logic", "both")),
    ),
    scales=("smoke", "small"),
    notes=("Up to 6, over 6: number of operators; models are trained on up to 6.",),
)

ITEMS = (TRANSLATION, TRANSLATION_SMALL, PTB, LOGIC)
