"""What the tables say of several models: which modules, and what was found."""

import re

import pytest

from diverse_mha.analysis.collect import summarise
from diverse_mha.analysis.questions import comparison_tables, headline
from diverse_mha.analysis.tables import (
    headings_of,
    legend,
    model_tables,
    rows_of,
    summary_rows,
)
from diverse_mha.analysis.writers import format_tables, heads_csv, latex_tables
from experiments.measures import MEASURES

SCORES = ("subspace", "position", "output")


def score(layers):
    return {"layers": layers, "all": layers[0], "off_diagonal": {"layers": layers, "all": 1.0}}


def result(name, cka, out, components=("encoder", "cross", "decoder"), depth=2):
    """A model of two layers a component whose numbers grow from one to the next by 0.1."""
    entries = {}
    for place, component in enumerate(components):
        layers = {
            str(n): {
                "cka": {"mean": cka + 0.1 * (place + n)},
                "svcca": {
                    "mean": 0.1 * (place + n),
                    "top_mean": 0.1 * (place + n) + 0.05,
                    "threshold": 0.9,
                },
            }
            for n in (1, 2)
        }
        entries[component] = {"heads": 4, "positions": 9, "depth": depth, "layers": layers}
    scores = {c: {s: score([out, out]) for s in SCORES} for c in components}
    return {
        "name": name, "architecture": "a", "components": entries, "disagreement": scores,
        "summary": summarise(entries),
    }  # fmt: skip


def test_the_module_that_yun_et_al_report_is_told_from_the_mean_of_three():
    found = result("a", 0.0, 0.5)
    rows = summary_rows(found)
    place = headings_of(found).index("SVCCA")
    assert rows["cross"][place] == pytest.approx(0.3), "second component, second layer"
    assert rows["last"][place] == pytest.approx((0.2 + 0.3 + 0.4) / 3)
    assert rows["mean"][place] == pytest.approx((0.15 + 0.25 + 0.35) / 3)
    assert rows["cross"][place + 1] == pytest.approx(0.35)
    outputs, scores = comparison_tables([found, found])
    assert outputs.title.endswith("similar? (cross, last layer: Yun et al. 2021, Tables 3 and 5)")
    assert ["", "cross, last layer", "0.300", "0.300", "0.000"] in outputs.groups[0]
    assert "Yun" not in scores.title
    deeper = result("a", 0.0, 0.5, depth=6)
    assert comparison_tables([deeper, deeper])[0].title == "Are heads' outputs similar?"
    lm = result("lm", 0.0, 0.5, ("decoder",))
    assert "Yun" not in comparison_tables([lm, lm])[0].title


def test_reproduce_compares_the_papers_module():
    content = {"models": [result("a", 0.0, 0.5)]}
    assert MEASURES["svcca"].read(content) == pytest.approx(0.3)
    assert MEASURES["svcca.top"].read(content) == pytest.approx(0.35)
    assert MEASURES["cka"].read(content) == pytest.approx(0.3)


def test_all_means_are_over_the_modules_that_have_pairs():
    found = result("a", 0.0, 0.5)
    found["components"]["decoder"]["heads"] = 1
    for layer in found["components"]["decoder"]["layers"].values():
        layer.update(cka={"mean": None}, svcca={"mean": None, "top_mean": None})
    found["summary"] = summarise(found["components"])
    found["disagreement"]["decoder"] = {s: score([0.1, 0.1]) for s in SCORES}
    for row in ("last", "mean"):
        values = dict(zip(headings_of(found), summary_rows(found)[row], strict=True))
        assert values["CKA"] == pytest.approx({"last": 0.25, "mean": 0.2}[row])
        assert values["Out."] == values["Out. i≠j"] == pytest.approx(0.5)
    for component in found["components"].values():
        component["heads"] = 1
    assert summary_rows(found)["mean"][headings_of(found).index("Out.")] < 0.4, "none has pairs"


def test_each_layer_has_its_own_score_and_their_mean_is_that_of_d():
    found = result("a", 0.0, 0.5)
    found["disagreement"]["encoder"]["output"] = score([0.2, 0.6]) | {"all": 0.3}
    place = headings_of(found).index("Out.")
    rows = {row[:2]: row[2][place] for row in rows_of(found)}
    assert [rows["encoder", name] for name in ("1", "2", "mean")] == [0.2, 0.6, 0.3]
    first = legend([found])[0]
    assert first.startswith("SVCCA: ") and "cover 90 % of the" in first


def test_what_one_model_lacks_has_no_row():
    models = [result("a", 0.0, 0.5), result("lm", 0.0, 0.5, ("decoder",))]
    tables = comparison_tables(models)
    assert [table.label for table in tables] == ["compare-outputs", "compare-scores"]
    assert all(
        [row[1] for row in table.groups[0]] == ["all layers", "last layers"] for table in tables
    )
    own = " (of components that are not the same in all models)"
    assert all(table.title.endswith(own) and not table.findings for table in tables)
    assert own in format_tables(models, "valid")


def test_two_models_have_a_column_of_differences_and_more_have_rows():
    base, other = result("base", 0.0, 0.5), result("other", 0.2, 0.5)
    table = comparison_tables([base, other])[0]
    assert table.headings == ["measure", "over", "base", "other", "difference"]
    assert table.groups[2][0] == ["CKA", "all layers", "0.250", "0.450", "+0.200"]
    table = comparison_tables([base, other, base])[0]
    assert table.headings == ["over", "model", "SVCCA", "SVCCA top", "CKA", "CKA unb."]
    assert [row[:2] for row in table.groups[0]] == [
        ["all layers", "base"], ["", "other"], ["", "base"],
    ]  # fmt: skip
    assert len(table.findings) == 2


def test_what_was_found_is_said():
    base, other = result("base", 0.0, 0.5), result("other", 0.2, 0.7)
    (outputs,), (scores,) = (table.findings for table in comparison_tables([base, other]))
    assert outputs == (
        "Heads of other are more similar than those of base: CKA 0.450 against 0.250, mean over "
        "all layers; higher in 6 of 6 modules (difference +0.200 to +0.200, 95 % over modules)."
    )
    assert scores.startswith("Heads of other are more in disagreement than those of base: Out. 0.7")
    assert headline([base, other]) == outputs
    assert outputs in format_tables([base, other], "valid").replace("\n", " ")
    # exp(D) of unrelated heads rises with their number, so it says nothing of two numbers.
    for component in other["components"].values():
        component["heads"] += 1
    assert comparison_tables([base, other])[1].findings == ()


def changed(differences):
    found = result("other", 0.0, 0.5)
    layers = [layer for part in found["components"].values() for layer in part["layers"].values()]
    for layer, difference in zip(layers, differences, strict=True):
        layer["cka"]["mean"] += difference
    return found


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        # A quarter of the value, in one module alone.
        ((0.3, -0.01, 0.01, -0.01, 0.01, -0.01), "and base do not differ clearly: CKA 0.298 "),
        # Of a measure whose values are small, a small difference in all modules is clear.
        ((-0.005, -0.006, -0.004, -0.005, -0.006, -0.004), "are less similar than those of base:"),
        ((1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5), "and base do not differ clearly: CKA 0.250 "),
    ],
)
def test_models_differ_clearly_if_their_modules_do(differences, said):
    (sentence,) = comparison_tables([result("base", 0.0, 0.5), changed(differences)])[0].findings
    assert sentence.startswith(f"Heads of other {said}") and "95 % over modules)." in sentence


def test_one_module_is_no_evidence_and_one_model_no_comparison():
    base, other = (result(name, x, 0.5, ("decoder",)) for name, x in (("base", 0), ("other", 0.2)))
    assert headline([base]) == (
        "Heads of base: CKA 0.150, from 0.100 (decoder, layer 1) to 0.200 (decoder, layer 2). "
        "Analyze a second checkpoint with it to compare."
    )
    for model in (base, other):
        del model["components"]["decoder"]["layers"]["1"]
        del model["disagreement"]
    assert "do not differ clearly" in headline([base, other])
    assert headline([base, result("b", 0, 0.5)]).startswith("Nothing that was measured compares")


def test_sharpness_has_a_column_a_head_and_a_note_tells_of_few_positions():
    found = result("a", 0.0, 0.5)
    for entry in found["components"].values():
        entry |= {"heads": 10, "head_width": 16}
        for layer in entry["layers"].values():
            heads = [n / 10 for n in range(10)]
            layer["entropy"] = {
                "mean": 0.45, "heads": heads,
                "share_above_0.95": 0.5, "heads_share_above_0.95": [0.5] * 10,
            }  # fmt: skip
    found["summary"] = summarise(found["components"])
    assert found["summary"]["entropy"]["mean_share_above_0.95"] == 0.5
    tables = {table.label: table for table in model_tables(found)}
    assert tables["layers-entropy-a"].headings[2:] == ["mean", *"12345678"]
    assert tables["layers-entropy-a"].groups[0][0][:4] == ["encoder", "1", "0.450", "0.000"]
    assert tables["layers-entropy-a-9"].groups[0][0][2:] == ["0.450", "0.800", "0.900"]
    assert tables["layers-peaks-a"].groups[2][1][:3] == ["", "2", "0.500"]
    assert heads_csv([found]).splitlines()[2] == "a,encoder,1,2,0.1,0.5"
    question = comparison_tables([found, found])[1]
    assert question.label == "compare-sharpness" and len(question.groups) == 2
    note = "note: of 9 positions CKA of unrelated heads of width 16 is about 0.64; see CKA unb., or measure more data"  # noqa: E501
    assert legend([found])[-1] == note
    for entry in found["components"].values():
        entry["positions"] = 900
    assert not any("note" in line for line in legend([found]))


def test_what_was_chosen_is_not_called_last_or_all():
    whole, some = result("a", 0.0, 0.5), result("a", 0.0, 0.5, depth=6)
    said = "all, last: mean of the components' {} layers; all, mean: of {}"
    assert legend([whole])[-1] == said.format("last", "all layers")
    for models in ([some], [whole, some], [some, whole]):
        assert legend(models)[-1] == said.format("last chosen", "the chosen layers")
    rows = [row[1] for row in comparison_tables([whole, whole])[0].groups[0]]
    assert rows == ["all layers", "last layers", "cross, last layer"]
    rows = [row[1] for row in comparison_tables([whole, some])[0].groups[0]]
    assert rows == ["the chosen layers", "last chosen layers", "cross, last chosen layer"]


def test_a_caption_explains_what_its_table_has():
    made = {"command": "", "date": "", "versions": {"diverse_mha": ""}}
    found = result("a", 0.0, 0.5)
    beside = {"svcca": 0.5, "svcca_top": 0.6, "svcca_each": 0.4, "cka": 0.3}
    found["against"] = {"encoder": beside}
    content = {"models": [found], "made": made, "subset": "valid", "data": "d"}
    text = latex_tables(content | {"against": {"name": "single"}})
    pairs = re.findall(r"\\caption\{(.*)\}\n\\label\{tab:heads-(.*?)\}", text)
    captions = {label: caption for caption, label in pairs}
    assert captions["against"].endswith(
        "only the leading correlations that cover 98 \\% of their sum."
    )
    assert "of the same correlations" not in captions["against"]
    similarity, scores = captions["layers-similarity-a"], captions["layers-scores-a"]
    assert "linear kernel" in similarity and "exp(D) of values" in scores
    assert "linear kernel" not in scores and "exp(D)" not in similarity
    assert all("all, last: mean of" in caption for caption in (similarity, scores))


def test_a_measure_by_itself_is_explained_without_the_others():
    found = result("a", 0.0, 0.5)
    for entry in found["components"].values():
        for layer in entry["layers"].values():
            layer.clear()
            layer["cka"] = {"mean": 0.5}
    del found["disagreement"]
    found["summary"] = summarise(found["components"])
    assert legend([found])[0].startswith("CKA: linear kernel; mean over pairs")


def test_a_score_too_small_for_a_float_is_zero():
    found = result("a", 0.0, 0.5)
    found["disagreement"]["cross"]["position"] = score([0.0, 0.0])
    assert summary_rows(found)["mean"][headings_of(found).index("Pos.")] == 0
