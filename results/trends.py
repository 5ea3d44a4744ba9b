"""Tables by number of heads, held CKA, output weight, Drophead's form and dropout.

Their plans in results/plans/: heads, similarity, output-weight, drophead, dropout.
"""

import json
import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from diverse_mha.evaluation.comparison.statistics import Difference, by_t
from experiments.papers import PAPERS
from results.published import Cells, Rows, Run, Study, average, difference, heads, runs_shared_with

#: Functions that label a run's row.
OF_HEAD_COUNTS = runs_shared_with("heads", seeds=(11, 12))
OF_HELD = runs_shared_with("held-cka", seeds=(11, 12))
OF_OUTPUT_WEIGHT = runs_shared_with("output-weight", seeds=(11,))
OF_DROPHEAD_FORMS = runs_shared_with("drophead-forms", seeds=(2,))
OF_DROPOUT = runs_shared_with("ptb-dropout", seeds=(1,))
#: Scores read by number of heads and by CKA: column, digits, +1 = higher is better.
SCORES = {"BLEU": ("sacrebleu", 2, 1), "loss, bits": ("logged_nll", 3, -1)}
CLOSE = {"BLEU": 0.5, "loss, bits": 0.02}  # what seeds differ by
HELD_WITHIN = 0.02


def _in_order(rows: Rows, table: str) -> Rows:
    labels = (row.label for row in PAPERS["study"][table].rows)
    return {label: rows[label] for label in labels if label in rows}


def head_counts(rows: Rows, *_) -> dict[str, Cells]:
    """Return scores and heads by method and number of heads."""
    return {
        label: [str(len(runs)), average(runs, "sacrebleu", 2), average(runs, "logged_nll", 3)]
        + (heads(runs) if all(run.values["svcca"] for run in runs) else _single(runs))
        for label, runs in _in_order(rows, "heads").items()
    }


def _single(runs: Sequence[Run]) -> Cells:
    """Format exp(D) of a single head, which has no pair to compare."""
    return ["", "", average(runs, "exp_d_subspace", 3), average(runs, "exp_d_output", 3), ""]


def drophead_forms(rows: Rows, *_) -> dict[str, Cells]:
    """Return scores and heads by Drophead's form; SVCCA less the baseline's comes first."""
    rows = _in_order(rows, "drophead-forms")
    svcca = {label: fmean(run["svcca"] for run in runs) for label, runs in rows.items()}
    base = next(iter(svcca.values()))
    return {
        label: ["" if value == base else f"{value - base:+.3f}"]
        + [average(rows[label], "sacrebleu", 2), average(rows[label], "logged_nll", 3)]
        + heads(rows[label])
        for label, value in svcca.items()
    }


def by_output_weight(rows: Rows, *_) -> dict[str, Cells]:
    """Return loss, loss less that of the baseline with as many heads, BLEU, and heads."""
    rows, lines = _in_order(rows, "output-weight"), {}
    for label, runs in rows.items():
        count, _, row = label.partition(": ")
        losses = [
            fmean(run["logged_nll"] for run in rows[f"{count}: {name}"])
            for name in (row, "Baseline")
        ]
        lines[label] = [
            f"{losses[0]:.3f}",
            f"{losses[0] - losses[1]:+.3f}" if row != "Baseline" else "",
        ]
        lines[label] += [average(runs, "sacrebleu", 2), *heads(runs)]
    return lines


def by_dropout(rows: Rows, *_) -> dict[str, Cells]:
    """Return perplexities by dropout and method, and the gain over the baseline in per cent."""
    rows, lines = _in_order(rows, "ptb-dropout"), {}
    for label, runs in rows.items():
        dropout, _, method = label.partition(": ")
        test = fmean(run["test_perplexity"] for run in runs)
        base = fmean(run["test_perplexity"] for run in rows[f"{dropout}: Baseline"])
        lines[label] = [f"{test:.2f}", f"{100 * (1 - test / base):+.1f}"]
        if method == "Baseline":
            lines[label][1] = ""
        lines[label] += [average(runs, "valid_perplexity", 2)]
        lines[label] += [average(runs, name, 3) for name in ("svcca", "cka")]
        lines[label] += [average(runs, "jsd", 1)]
    return lines


def gains_of(rows: Rows, column: str) -> dict[str, dict[int, list[float]]]:
    """Return by method and number of heads, at full width, the gains over the baseline.

    A gain is a run's score less that of the baseline with as many heads and the same seed.
    """
    found: dict[str, dict[int, dict[int, float]]] = {}
    for label, runs in rows.items():
        count, _, method = label.partition(": ")
        if "width" not in count:
            scores = {run.seed: run[column] for run in runs}
            found.setdefault(method, {})[int(count.split()[0])] = scores
    base = found.pop("Baseline")
    return {
        method: {
            count: [score - base[count][seed] for seed, score in scores.items()]
            for count, scores in sorted(by_count.items())
        }
        for method, by_count in found.items()
    }


def gains(rows: Rows, *_) -> dict[str, Cells]:
    """Return gains by method, and the slope of a line over log2 of the number of heads."""
    rows, lines = _in_order(rows, "heads"), {}
    for name, (column, digits, _) in SCORES.items():
        for method, by_count in gains_of(rows, column).items():
            points = [(math.log2(n), gain) for n, found in by_count.items() for gain in found]
            cells = [
                f"{fmean(by_count[n]):+.{digits}f}" if n in by_count else ""
                for n in (1, 2, 4, 8, 16)
            ]
            lines[f"{method}, {name}"] = [*cells, difference(fit(points, 1), digits)]
    return lines


def fit(points: Sequence[tuple[float, float]], degree: int) -> Difference | None:
    """Fit a polynomial by least squares; returns its highest coefficient, tested against 0.

    The error is the regression's own. None if there are too few points for one.
    """
    x, y = np.array(points).T
    degrees = len(x) - degree - 1
    if degrees < 1:
        return None
    design = np.vander(x, degree + 1)
    coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
    variance = float(np.square(y - design @ coefficients).sum()) / degrees
    error = math.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0])
    return by_t(float(coefficients[0]), error, degrees, over_seeds=True)


def cka_of(study: Study, run: Run) -> list[float]:
    """Return CKA of every layer of all attentions, on the validation set."""
    (file,) = study.folder(run).glob("heads.*.json")
    (model,) = json.loads(file.read_text(encoding="utf-8"))["models"]
    components = model["components"].values()
    return [layer["cka"]["mean"] for entry in components for layer in entry["layers"].values()]


def target_of(run: Run) -> float | None:
    """Return the value at which a run's CKA was held, None for the baseline."""
    words = dict(word.split("=", 1) for word in run.values["overrides"].split())
    target = words.get("criterion.cka_target")
    return None if target is None else float(target)


def held(rows: Rows, study: Study, *_) -> dict[str, Cells]:
    """Return scores and CKA by the value at which CKA was held."""
    lines = {}
    for label, runs in sorted(rows.items(), key=lambda row: target_of(row[1][0]) or 0.0):
        by_run = [cka_of(study, run) for run in runs]
        target = target_of(runs[0])
        words = runs[0].values["overrides"].split()
        weight = next((w.partition("=")[2] for w in words if "cka_weight" in w), "")
        far = max(abs(value - target) for values in by_run for value in values) if target else None
        lines[label] = [f"{float(weight):g}" if weight else "", str(len(runs))]
        lines[label] += [" ".join(f"{fmean(values):.3f}" for values in by_run)]
        lines[label] += ["" if far is None else f"{far:.3f}"]
        lines[label] += [average(runs, "sacrebleu", 2), average(runs, "logged_nll", 3)]
        lines[label] += [average(runs, name, 3) for name in ("svcca", "exp_d_output", "jsd")]
    return lines


def held_points(rows: Rows, study: Study, column: str) -> list[tuple[float, float]]:
    """Return log2 of the target and the score of every run that was held at it."""
    return [
        (math.log2(target), run[column])
        for runs in rows.values()
        for run in runs
        if (target := target_of(run)) is not None
        and abs(fmean(cka_of(study, run)) - target) <= HELD_WITHIN
    ]


def parabolas(rows: Rows, study: Study, *_) -> dict[str, Cells]:
    """Return curvature, best target, and the targets that are nearly as good, by score."""
    lines = {}
    for name, (column, digits, sign) in SCORES.items():
        points = held_points(rows, study, column)
        curvature, (best, low, high) = fit(points, 2), best_target(points, sign, CLOSE[name])
        lines[name] = [str(len(points)), difference(curvature, digits + 1), f"{best:.2f}"]
        lines[name] += [f"{low:.2f} to {high:.2f}"]
    return lines


def best_target(
    points: Sequence[tuple[float, float]], sign: int, close: float
) -> tuple[float, float, float]:
    """Return the fitted parabola's best target, and the lowest and highest that is nearly as good.

    Only values between the lowest and the highest target of the points count.
    """
    x, y = np.array(points).T
    tried = np.linspace(x.min(), x.max(), 401)
    fitted = sign * np.polyval(np.polyfit(x, y, 2), tried)
    near = tried[fitted >= fitted.max() - close]
    return tuple(float(2**value) for value in (tried[fitted.argmax()], near.min(), near.max()))
