"""Printed tables and findings."""

import pytest

from diverse_mha.analysis.findings import comparison_tables, headline
from diverse_mha.analysis.report import format_tables
from diverse_mha.analysis.results import (
    Cka,
    Component,
    Content,
    Disagreement,
    Model,
    Score,
    Sharpness,
    Svcca,
    to_json,
)
from diverse_mha.analysis.similarity import summarise
from diverse_mha.analysis.tables import OVER, legend, model_tables, rows_of, summary_rows
from experiments.measures import MEASURES

SCORES = ("subspace", "position", "output")


def score(layers):
    return Disagreement(layers, None, Score(layers, None))


def result(name, cka, out, components=("encoder", "cross", "decoder")):
    """Return results of two layers in each component.

    SVCCA starts at 0.1. It is 0.1 higher in a second layer, and in each next component. CKA is
    SVCCA + ``cka``.
    """
    entries = {}
    for place, component in enumerate(components):
        svcca = [0.1 * (place + n) for n in (1, 2)]
        layers = {
            str(n): {
                "cka": Cka(cka + svcca[n - 1], [], None, None),
                "svcca": Svcca(svcca[n - 1], svcca[n - 1] + 0.05, [], [], {}, [], 0.99),
            }
            for n in (1, 2)
        }
        entries[component] = Component(4, 9, layers)
    scores = {c: {s: score([out, out]) for s in SCORES} for c in components}
    return Model(name, f"{name}.pt", "a", 9, entries, summarise(entries), scores)


def text(*models):
    return " ".join(format_tables(Content("valid", "bin", {}, [*models])).split())


def test_cross_attention_row_differs_from_the_mean_of_components():
    found = result("a", 0.0, 0.5)
    rows = summary_rows(found)
    assert rows["cross"]["SVCCA"] == pytest.approx(0.3), "the row shows the last cross layer"
    assert rows["last"]["SVCCA"] == pytest.approx((0.2 + 0.3 + 0.4) / 3)
    assert rows["mean"]["SVCCA"] == pytest.approx((0.15 + 0.25 + 0.35) / 3)
    assert rows["cross"]["SVCCA top"] == pytest.approx(0.35)
    content = {"models": [to_json(found)]}
    for name, value in {"svcca": 0.3, "svcca.top": 0.35, "cka": 0.3}.items():
        assert MEASURES[name].read(content) == pytest.approx(value), (
            "reproduce reads the row that the paper reports"
        )


@pytest.mark.parametrize(
    ("components", "layers", "shown"),
    [
        (("encoder", "cross"), 2, ["mean", "last", "cross"]),
        (("encoder", "cross"), 1, ["mean", "cross"]),
        (("cross",), 2, ["mean", "last"]),
        (("cross",), 1, ["mean"]),
        (("decoder",), 2, ["mean", "last"]),
    ],
)
def test_means_over_the_same_layers_are_shown_once(components, layers, shown):
    models = [result("a", 0.0, 0.5, components), result("b", 0.1, 0.5, components)]
    for model in models:
        for entry in model.components.values():
            entry.layers = dict([*entry.layers.items()][:layers])
    (table, *_) = comparison_tables(models)
    assert [group[0][0] for group in table.groups] == [OVER[key] for key in shown]


def test_means_leave_out_modules_without_pairs():
    found = result("a", 0.0, 0.5)
    found.components["decoder"].heads = 1
    for layer in found.components["decoder"].layers.values():
        layer.update(cka=None, svcca=None)
    found.summary = summarise(found.components)
    found.disagreement["decoder"] = {s: score([0.1, 0.1]) for s in SCORES}
    for row, value in {"last": 0.25, "mean": 0.2}.items():
        values = summary_rows(found)[row]
        assert values["CKA"] == pytest.approx(value)
        assert values["Out."] == values["Out. i≠j"] == pytest.approx(0.5)
    for component in found.components.values():
        component.heads = 1
    assert summary_rows(found)["mean"]["Out."] < 0.4, "if no module has pairs, none is left out"


def test_component_score_is_the_geometric_mean_of_its_layers():
    found = result("a", 0.0, 0.5)
    found.disagreement["encoder"]["output"] = score([0.2, 0.6])
    found.disagreement["cross"]["position"] = score([0.0, 0.0])  # exp(D) is 0 if D is about -800
    rows = {row[:2]: row[2] for row in rows_of(found)}
    values = [rows["encoder", name]["Out."] for name in ("1", "2", "mean")]
    assert values == pytest.approx([0.2, 0.6, (0.2 * 0.6) ** 0.5])
    assert rows["all", "mean"]["Pos."] == 0


def test_a_layer_without_a_score_is_a_dash_and_does_not_count_in_means():
    found = result("a", 0.0, 0.5)
    found.disagreement["cross"]["output"] = Disagreement([0.5, 0.5], None, Score([0.3, None], None))
    (table,) = (t for t in model_tables(found) if "Out." in t.headings)
    column = table.headings.index("Out. i≠j")
    assert [row[column] for row in table.groups[1]] == ["0.300", "-", "0.300"]
    (sentence,) = comparison_tables([found, result("b", 0.0, 0.7)])[1].findings
    assert sentence.startswith("Heads of b are more in disagreement than those of a: Out. 0.7")


def test_tables_have_all_modules_and_the_legend_explains_all_columns():
    found = result("a", 0.0, 0.5)
    similarity, scores = model_tables(found)
    assert similarity.headings == ["component", "layer", "SVCCA", "SVCCA top", "CKA", "CKA unb."]
    assert similarity.groups[1][1] == ["", "2", "0.300", "0.350", "0.300", "-"]
    assert [row[1] for row in scores.groups[-1]] == ["last", "mean"]
    assert any(
        line.startswith("Sub.: exp(D), where D is the disagreement") for line in legend([found])
    )
    assert any("means are geometric means" in line for line in legend([found]))
    found.disagreement = None
    for entry in found.components.values():
        for layer in entry.layers.values():
            del layer["svcca"]
            layer["entropy"] = Sharpness(0.45, [], 0.5, [])
    found.summary = summarise(found.components)
    assert found.summary["entropy"]["mean_share_above_0.95"] == 0.5
    similarity, sharpness = model_tables(found)
    assert sharpness.groups[0][0] == ["encoder", "1", "0.450", "0.500"]
    columns = [line.partition(":")[0] for line in legend([found])]
    assert columns == ["CKA", "CKA unb.", "Entropy", "Max>0.95", 'Row "all, last"']


def test_table_of_two_models_has_their_difference():
    base, other = result("base", 0.0, 0.5), result("other", 0.2, 0.5)
    table = comparison_tables([base, other])[0]
    assert table.headings == ["over", "model", "SVCCA", "SVCCA top", "CKA", "CKA unb."]
    assert table.groups[0] == [
        ["all measured layers", "base", "0.250", "0.300", "0.250", "-"],
        ["", "other", "0.250", "0.300", "0.450", "-"],
        ["", "difference", "+0.000", "+0.000", "+0.200", "-"],
    ]
    table = comparison_tables([base, other, base])[0]
    assert [row[1] for row in table.groups[0]] == ["base", "other", "base"]
    assert len(table.findings) == 2


def test_findings_compare_the_heads_of_two_models():
    base, other = result("base", 0.0, 0.5), result("other", 0.2, 0.7)
    (outputs,), (scores,) = (table.findings for table in comparison_tables([base, other]))
    assert outputs == (
        "Heads of other are more similar than those of base: CKA 0.450 against 0.250, mean over "
        "all measured layers. These are single models; other seeds may differ."
    )
    assert scores.startswith("Heads of other are more in disagreement than those of base: Out. 0.7")
    assert headline([base, other]) == outputs and outputs in text(base, other)
    # exp(D) of unrelated heads rises with their number, so models with different numbers of heads
    # are not compared.
    for component in other.components.values():
        component.heads += 1
    assert comparison_tables([base, other])[1].findings == ()


def with_cka(name, positions, **values):
    """Return a model with encoder layers; ``l1=(CKA, unbiased CKA)`` sets those of layer 1."""
    layers = {n[1:]: {"cka": Cka(cka, [], unbiased, [])} for n, (cka, unbiased) in values.items()}
    entries = {"encoder": Component(4, positions, layers)}
    return Model(name, f"{name}.pt", "a", 9, entries, summarise(entries))


def test_bias_of_cka_is_reported_with_the_positions_needed():
    few = with_cka("few", 256, l1=(0.2, 0.0), l2=(0.15, 0.06))
    (table,) = model_tables(few)
    assert table.findings == (
        "CKA is biased upwards: 0.200, but 0.000 without bias (encoder, layer 1, 256 positions). "
        "Trust CKA unb., or measure about 3,200 positions. Without bias, heads are most similar in "
        "encoder, layer 2, not in encoder, layer 1.",
    )
    assert headline([few]).endswith(table.findings[0]) and table.findings[0] in text(few)
    for model in (
        with_cka("many", 9000, l1=(0.21, 0.2), l2=(0.049, 0.0)),
        with_cka("three positions", 3, l1=(0.9, None)),
        with_cka("equal heads", 9, l1=(1.0, 1.0)),
        with_cka("one head", 9, l1=(None, None)),
    ):
        assert model_tables(model)[0].findings == ()


def test_a_ranking_that_the_bias_reverses_is_reported():
    first = with_cka("first", 100, l1=(0.30, 0.05))
    (sentence,) = comparison_tables([first, with_cka("b", 400, l1=(0.2, 0.1))])[0].findings
    assert sentence.startswith("Heads of b are less similar than those of first: CKA 0.200 against")
    assert (
        "Without bias, the order is reversed: CKA unb. 0.100 against 0.050. These are" in sentence
    )
    for same in ((0.2, 0.04), (0.3, 0.9), (0.2, None), (0.2, 0.0501)):
        (sentence,) = comparison_tables([first, with_cka("b", 400, l1=same)])[0].findings
        assert "reverse" not in sentence, same


def test_means_that_are_equal_when_rounded_are_reported_as_equal():
    models = result("base", 0.0, 0.5), result("other", 1e-5, 0.5)
    (sentence,) = comparison_tables(models)[0].findings
    assert sentence.startswith("Heads of other are as similar as those of base: CKA 0.250 against")
