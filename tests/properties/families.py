"""The three kinds of models, with options and batches drawn by hypothesis."""

import torch
from hypothesis import strategies as st

from diverse_mha.methods import orthogonality
from tests import toy, toy_classification
from tests.criterions import test_terms
from tests.criterions.test_sentence_classification import build as classification
from tests.models.test_language_model import build as build_lm

WIDTH = 16  # embedding dimension of every model
lengths = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@st.composite
def options(draw, family: str, layers: int = 2, fewest_heads: int = 1) -> dict:
    """Draw options of a deterministic model: heads, normalisation, cascade and aggregation."""
    sides = {"translation": ("encoder", "decoder"), "lm": ("decoder",)}.get(family, ("encoder",))
    chosen = {"activation_fn": draw(st.sampled_from(["relu", "gelu"]))}
    heads = draw(st.sampled_from([n for n in (1, 2, 4, 8) if n >= fewest_heads]))
    before = draw(st.booleans())
    for side in sides:
        chosen[f"{side}_attention_heads"] = heads
        chosen[f"{side}_layers"] = layers
        chosen[f"{side}_normalize_before"] = before
    chosen["logits"] = draw(st.sampled_from(["none", "residual", "mlp", "talking-heads"]))
    if chosen["logits"] == "mlp":
        chosen["cascade_depth"] = draw(st.integers(1, 2))
    aggregations = ["linear", "simple-routing", "em-routing", "headwise-gate"]
    chosen["aggregation"] = draw(st.sampled_from(aggregations))
    if chosen["aggregation"] != "linear":
        components = ("encoder", "cross", "decoder") if len(sides) == 2 else sides
        where = draw(st.sets(st.sampled_from(components), min_size=1))
        for component in where:
            layer = draw(st.sampled_from(["1", "2", "all"]))
            chosen[f"aggregation_{component}_layers"] = layer
        if "routing" in chosen["aggregation"]:
            chosen["routing_capsules"] = draw(st.sampled_from([4, WIDTH]))
    return chosen


@st.composite
def terms(draw) -> dict:
    """Draw options of a criterion: at least one term."""
    chosen = {}
    kinds = draw(st.sets(st.sampled_from(["subspace", "position", "output"])))
    if kinds:
        chosen["disagreement"] = ",".join(sorted(kinds))
        chosen["disagreement_form"] = draw(st.sampled_from(["paper", "off-diagonal"]))
    if draw(st.booleans()) or not kinds:
        chosen["hsic_weight"] = 0.1
        chosen["hsic_normalization"] = "mean"
    if draw(st.booleans()):
        chosen["cka_weight"] = 0.1
        chosen["cka_target"] = draw(st.sampled_from([None, 0.3]))
    if draw(st.booleans()):
        chosen["orthogonality_weight"] = 0.1
        readings = st.sampled_from(orthogonality.NORMALIZATIONS)
        chosen["orthogonality_normalization"] = draw(readings)
        chosen["orthogonality_method"] = draw(st.sampled_from(["power", "exact"]))
        chosen["orthogonality_cosine_projections"] = draw(st.sampled_from(["none", "q,k,v"]))
    return chosen


def build(family: str, chosen: dict):
    """Build a model in float64 and evaluation mode."""
    if family == "translation":
        model = toy.build_ours(**chosen)
    elif family == "lm":
        model = build_lm(**chosen)
    else:
        model = toy_classification.build_classifier(sentences=1, **chosen)
    if chosen.get("logits") == "talking-heads":  # replace its initial maps, the identity
        torch.manual_seed(5)
        for name, parameter in model.named_parameters():
            if "cascade" in name:
                torch.nn.init.normal_(parameter, std=0.5)
    model.double().eval()
    return model


def batch(family: str, sizes: list[int], extra_padding: int = 0) -> dict:
    """Return a batch of sentences of the given lengths, with targets of other lengths."""
    if family == "classification":
        return toy_classification.toy_batch(sizes, sentences=1, extra_padding=extra_padding)
    pairs = toy.toy_batch(sizes, sizes[::-1], extra_padding=extra_padding)
    if family == "translation":
        return pairs
    net_input = {"src_tokens": pairs["net_input"]["prev_output_tokens"]}
    return {**pairs, "net_input": net_input}


def reordered(sample: dict, order: list[int]) -> dict:
    """Return a batch with its sentences in another order."""
    rows = torch.tensor(order)
    out = {**sample, "target": sample["target"][rows]}
    out["net_input"] = {name: value[rows] for name, value in sample["net_input"].items()}
    return out


def criterion(family: str, chosen: dict):
    """Build the family's criterion."""
    if family == "classification":
        return classification(groups=(), **chosen)
    names = {"translation": "label_smoothed_cross_entropy", "lm": "cross_entropy"}
    return test_terms.criterion(names[family], **chosen)


def step(family: str, model, sample: dict, chosen: dict):
    """Return loss / sample size, values of terms, and gradients by name."""
    model.zero_grad()
    loss, size, log = criterion(family, chosen)(model, sample)
    (loss / size).backward()
    values = {k: float(v) / size for k, v in log.items() if k.startswith("term/")}
    assert values
    gradients = {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
    }
    return float(loss) / size, values, gradients


def assert_same_step(first, second) -> None:
    """Assert that two steps are equal.

    Terms must agree to float64 precision. Loss and gradients must agree to float32 precision,
    because fairseq computes the softmax in float32. Gradients of zero have an absolute tolerance.
    """
    assert first[1].keys() == second[1].keys()
    for name, value in first[1].items():
        torch.testing.assert_close(value, second[1][name], rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(first[0], second[0], rtol=1e-5, atol=1e-6)
    for name, gradient in first[2].items():
        torch.testing.assert_close(gradient, second[2][name], rtol=1e-4, atol=1e-5)
