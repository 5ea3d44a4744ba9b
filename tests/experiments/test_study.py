"""Significance tests of a study's rows against its baseline."""

import random
from dataclasses import replace

import pytest
from sacrebleu.metrics import BLEU

from diverse_mha.common.tables import to_text
from diverse_mha.evaluation.comparison.statistics import Difference
from diverse_mha.evaluation.comparison.systems import Measured, System
from experiments import study
from experiments.numbers import Choices, Number, Results, plan_table
from experiments.papers import PAPERS
from experiments.printer import SMALL, SMOKE, lay_out

TABLE = PAPERS["study"]["translation"]
CHOICES = Choices("smoke", (1, 2, 3))
SPOILT = {"baseline": 0.3, "out": 0.1, "coda": 0.3}  # proportion of wrong words
VALIDATION = (
    '{{"epoch": {0}, "valid_loss": "5", "valid_nll_loss": "{2}", "valid_ppl": "{1}", '
    '"valid_num_updates": "{0}00"}}\n'
)
LOSS = {"baseline": 2.0, "out": 2.5, "coda": 1.9}  # lowest validation loss with seed 1
RISE = {"baseline": 0.01, "out": 0.02, "coda": 0.01}  # rise of that loss from seed to seed


@pytest.fixture
def rows():
    return [row for row in TABLE.rows if row.name in (*SPOILT, "em")]


@pytest.fixture
def found(rows, place):
    """Results of three rows with three, two and one seeds; the fourth row has no results."""
    generator = random.Random(1)
    reference = [" ".join(f"w{generator.randrange(40)}" for _ in range(9)) for _ in range(60)]
    results = {}
    for row in (row for row in rows if row.name in SPOILT):
        seeds = {"baseline": (1, 2, 3), "out": (1, 2), "coda": (3,)}[row.name]
        for seed in seeds:
            run = CHOICES.run(row.cells[0].experiment, TABLE, seed)
            raw = run.data(place).parent / "raw/test.qo"
            raw.parent.mkdir(parents=True, exist_ok=True)
            raw.write_text("\n".join(reference) + "\n")
            folder = run.folder(place.out)
            folder.mkdir(parents=True)
            lines = [
                " ".join(w if generator.random() > SPOILT[row.name] else "x" for w in x.split())
                for x in reference
            ]
            (folder / "test.hyp.detok").write_text("\n".join(lines) + "\n")
            score = {
                "sacrebleu": BLEU().corpus_score(lines, [reference]).score,
                "sacrebleu_signature": "case:mixed|tok:13a",
            }
            best = LOSS[row.name] + RISE[row.name] * (seed - 1)
            losses = best + 2, best, best + 1
            points = zip((1, 2, 4), losses, strict=True)
            log = "".join(VALIDATION.format(n, 2 ** (8 / n), loss) for n, loss in points)
            (folder / "train.log").write_text(log)
            results[run] = {"scores": {"test": score}}
    return results


def planned(rows):
    return plan_table(replace(TABLE, rows=tuple(rows)), CHOICES)


def filled(rows):
    values = {"heads.svcca": (0.4, 0.5), "heads.exp_d.output": (0.8,), "parameters": (1e6,)}
    return [
        (row, [Number(c.measure, None, values.get(c.measure, ())) for c in row.cells])
        for row in rows
    ]


def test_every_row_is_tested_with_its_finished_seeds(rows, place, found):
    finished = Results(planned(rows), place, found, {}.get).runs()
    systems = study.compared(finished, found, place)
    assert [one.name for one in systems] == ["Baseline", "Out., encoder", "CODA"]
    counts = {row.label: len(runs) for row, runs in finished.items()}
    assert counts == {"Baseline": 3, "Out., encoder": 2, "EM routing, layers 1-2": 0, "CODA": 1}
    layout = study.lay_out_tests(TABLE, systems, replace(CHOICES, updates=50, bf16=True))
    tested = {"BLEU": 2, "chrF": 0, "valid nll": 2}  # chrF is not tested
    expected = []
    for name, tests in tested.items():
        expected.append(name)
        for kind in (name, f"{name} by seed")[:tests]:
            expected += [f"difference in {kind}", f"p of {kind}, Holm"]
            expected += [f"{name}, could find"] if kind == name else []
    assert layout.headings == ("", "seeds", *expected)
    lines = {line[0]: line[1:] for line in layout.lines}
    assert list(lines) == ["Baseline", "Out., encoder", "CODA"]
    assert lines["Baseline"][0] == "3" and lines["Baseline"][2:7] == ("",) * 5
    assert " ± " in lines["Baseline"][7] and lines["Baseline"][8] == "2.010 ± 0.010"
    assert lines["Out., encoder"][2].startswith("+")
    assert (
        float(lines["Out., encoder"][3]) < 0.01
    )  # few degrees of freedom with three and two seeds
    assert lines["CODA"][2].endswith("†") and float(lines["CODA"][3]) > 0.05
    nll = systems[1].measures["valid nll"]
    for place, test in ((9, nll.difference), (12, nll.over_seeds)):
        low, high = test.interval
        assert lines["Out., encoder"][place] == f"{test.value:+.3f} [{low:+.3f}, {high:+.3f}]"
    assert float(lines["Out., encoder"][11]) == pytest.approx(nll.difference.detectable, 0.1)
    seed = "compared with seed 3 of the baseline, not with its mean"
    assert lines["CODA"][9:] == ("-0.090", "", "", "-0.100", ""), seed
    main = lay_out(TABLE, filled(rows), Choices("small"))
    assert SMALL not in main.notes, "a study has no published numbers to compare with"
    assert not any("paper" in heading or "ours" in heading for heading in main.headings)
    assert SMOKE in to_text(layout) and "stopped after 50 updates" in to_text(layout)


def test_nothing_is_tested_without_the_baseline(rows, place, found):
    others = {run: result for run, result in found.items() if "baseline" not in run.name}
    finished = Results(planned(rows), place, others, {}.get).runs()
    assert study.compared(finished, others, place) == []


def test_a_row_whose_runs_have_no_score_is_skipped(rows, place, found):
    """The mark of the row after it stays in its own row."""
    out, coda = (
        [run for run in found if f".{method}." in run.name]
        for method in ("disagreement_output", "coda")
    )
    better = (out[0].folder(place.out) / "test.hyp.detok").read_text()
    (coda[0].folder(place.out) / "test.hyp.detok").write_text(better)
    changed = found | {coda[0]: found[out[0]]} | {run: {"scores": {}} for run in out}
    finished = Results(planned(rows), place, changed, {}.get).runs()
    systems = study.compared(finished, changed, place)
    assert [one.name for one in systems] == ["Baseline", "CODA"]
    cells = {row.name: replace(row.cells[0], measure="bleu") for row in rows}
    table = replace(
        TABLE, columns=("BLEU",), rows=tuple(replace(r, cells=(cells[r.name],)) for r in rows)
    )
    numbers = [(row, [Number("bleu", None, (1.0,))]) for row in table.rows]
    results = Results(plan_table(table, CHOICES), place, changed, {}.get)
    marks = {row.name: n[0].mark for row, n in study.marked(results, numbers)}
    assert marks == {"baseline": "", "out": "", "em": "", "coda": " **†"}


def test_bleu_that_differs_significantly_from_the_baseline_is_marked(rows, place, found):
    columns = ("BLEU", "parameters")
    cells = [
        tuple(replace(c, measure=m) for c, m in zip(r.cells, ("bleu", "parameters"), strict=False))
        for r in rows
    ]
    table = replace(
        TABLE,
        columns=columns,
        rows=tuple(replace(r, cells=c) for r, c in zip(rows, cells, strict=True)),
    )
    moved = {row.name: row for row in table.rows}
    numbers = [(row, [Number("bleu", None, (1.0,)), None]) for row in moved.values()]

    def marks(choices):
        results = Results(plan_table(table, choices), place, found, {}.get)
        return {row.name: n[0].mark for row, n in study.marked(results, numbers)}

    marked = marks(CHOICES)
    assert marked == {"baseline": "", "out": " **", "em": "", "coda": ""}
    assert marks(replace(CHOICES, seeds=(1,)))["out"] == " **†", "one seed is tested over sentences"
    text = to_text(
        lay_out(table, [(moved["out"], [Number("bleu", 1.0, (2.0,), mark=" *"), None])], CHOICES)
    )
    assert "2.00 *" in text and "*, **: sacreBLEU differs from the baseline above" in text


def test_marks_are_of_the_p_values_that_compare_prints(rows, place, found, monkeypatch):
    """Of many rows without effect, one in twenty would be marked by its own p-value."""
    cells = {row.name: replace(row.cells[0], measure="bleu") for row in rows}
    table = replace(
        TABLE, columns=("BLEU",), rows=tuple(replace(r, cells=(cells[r.name],)) for r in rows)
    )
    holm = {"baseline": (None, None), "out": (0.004, 0.012), "coda": (0.03, 0.06)}
    systems = [
        System(row.label, (), {"BLEU": Measured((1.0,), Difference(1.0, p=p, over_seeds=True), of)})
        for row in rows
        for p, of in [holm.get(row.name, (0.2, 0.2))]
    ]
    monkeypatch.setattr(study, "compared", lambda *_: systems)
    numbers = [(row, [Number("bleu", None, (1.0,))]) for row in table.rows]
    results = Results(plan_table(table, CHOICES), place, found, {}.get)
    marks = {row.name: n[0].mark for row, n in study.marked(results, numbers)}
    assert marks == {"baseline": "", "out": " *", "em": "", "coda": ""}
