"""Variants to measure: stock fairseq, and one or more for each method."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from benchmarks.shapes import LanguageModelShape, Shape
from diverse_mha.common.options import parse_names

STOCK = "stock"


@dataclass(frozen=True)
class Variant:
    """A model and a criterion, by their names in fairseq's registries."""

    text: str  # description, for the table
    arch: str = "transformer_disagree"
    model: dict = field(default_factory=dict)  # options of the model, besides those of the shape
    criterion: str = "label_smoothed_cross_entropy_with_diversity"
    terms: dict = field(default_factory=dict)  # options of the criterion


# The settings of Yun et al. 2021, section 6.1.
_HSIC = {"hsic_weight": 1e-7}
_ORTHOGONALITY = {"orthogonality_weight": 1.0}
_DROPHEAD = {"drophead": 0.1}
_SIDES = ("encoder", "cross", "decoder")
_GATE = {"aggregation": "headwise-gate"} | {f"aggregation_{side}_layers": "all" for side in _SIDES}

_EXCLUSIVE = {"aggregation": "exclusive"} | {
    f"aggregation_{side}_layers": "all" for side in ("encoder", "decoder")
}


def _em_routing(side: str) -> dict:
    return {"aggregation": "em-routing", f"aggregation_{side}_layers": "1,2"}


VARIANTS = {
    STOCK: Variant(
        "fairseq's transformer", arch="transformer", criterion="label_smoothed_cross_entropy"
    ),
    "plain": Variant("transformer_disagree, no term"),
    # Shows how much of the speed of the other variants is due to the fused loss.
    "plain-stock-loss": Variant(
        "transformer_disagree, no term, fairseq's token loss", terms={"token_loss": "stock"}
    ),
    "output": Variant("output, all components", terms={"disagreement": "output"}),
    "all-terms": Variant(
        "all three terms, all components", terms={"disagreement": "subspace,position,output"}
    ),
    "em-1-2": Variant(
        "EM routing, encoder layers 1-2", arch="transformer_routing", model=_em_routing("encoder")
    ),
    "coda": Variant("CODA", arch="transformer_coda"),
    "realformer": Variant("RealFormer", model={"logits": "residual"}),
    "gate": Variant("headwise gate, all layers", model=_GATE),
    "talking-heads": Variant("talking heads", model={"logits": "talking-heads"}),
    "elementwise-gate": Variant(
        "elementwise gate, all layers", model=_GATE | {"aggregation": "elementwise-gate"}
    ),
    "exclusive": Variant("exclusive attention, self-attention", model=_EXCLUSIVE),
    "sink": Variant("sink", model={"logits": "sink"}),
    "qk-norm": Variant("QK-norm", model={"projections": "qk-norm"}),
    "knocking-heads": Variant("knocking heads", model={"projections": "knocking-heads"}),
    "value-residual": Variant("value residual", model={"projections": "value-residual"}),
    "hsic": Variant("HSIC, all components", terms=_HSIC),
    "cka": Variant("CKA, all components", terms={"cka_weight": 1.0}),
    "orthogonality": Variant("orthogonality, all components", terms=_ORTHOGONALITY),
    "drophead": Variant("Drophead 0.1", model=_DROPHEAD),
    "all-three": Variant(
        "HSIC, orthogonality and Drophead", model=_DROPHEAD, terms={**_HSIC, **_ORTHOGONALITY}
    ),
}


def _language_model(variant: Variant) -> Variant:
    """Return the variant of a language model with the same method."""
    return replace(
        variant,
        text=variant.text.replace(", all components", "").replace(
            "transformer_disagree", "transformer_lm_disagree"
        ),
        arch=variant.arch.replace("transformer_", "transformer_lm_"),
        criterion="cross_entropy_with_diversity",
    )


LANGUAGE_MODEL_VARIANTS = {
    STOCK: Variant("fairseq's transformer_lm", arch="transformer_lm", criterion="cross_entropy"),
    **{
        name: _language_model(VARIANTS[name])
        for name in ("plain", "output", "coda", "hsic", "orthogonality", "drophead", "all-three")
    },
    "em-1-2": replace(
        _language_model(VARIANTS["em-1-2"]),
        text="EM routing, layers 1-2",
        model=_em_routing("decoder"),
    ),
}


def variants_of(shape: Shape) -> dict[str, Variant]:
    """Return the variants that can be measured at a shape, by name."""
    if not isinstance(shape, LanguageModelShape):
        return VARIANTS
    if not shape.cutoffs:
        return LANGUAGE_MODEL_VARIANTS
    return {
        name: replace(one, criterion=one.criterion.replace("cross_entropy", "adaptive_loss"))
        for name, one in LANGUAGE_MODEL_VARIANTS.items()
    }


def choose(names: str | None, variants: Mapping[str, Variant]) -> list[str]:
    """Parse a comma-separated list of variants (None: all); stock always comes first."""
    if names is None:
        return list(variants)
    wanted = parse_names("variants", names, tuple(variants))
    return [STOCK, *(name for name in wanted if name != STOCK)]
