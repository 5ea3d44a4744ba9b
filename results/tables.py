"""Writes the study's tables into the pages, from the published runs: ``python -m results.tables``.

Given after new runs are published (``--pack``); the tests compare instead of writing (``--check``).
On its page a table stands between the comments ``<!-- table: NAME -->`` and
``<!-- end of table -->``; the rest of the page is not touched. Tests are those of ``diverse-mha
compare``. Cells that the runs alone do not give are in ``kept.csv`` (:mod:`.kept`).
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from statistics import mean

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import ROOT, write_files
from diverse_mha.evaluation.comparison.statistics import Difference, holm, welch
from diverse_mha.evaluation.comparison.systems import p_value
from experiments.papers import PAPERS
from experiments.study import VALID_STEP
from results import archive, kept, trends
from results.kept import Kept
from results.published import (
    TO_THE_END,
    Cells,
    Rows,
    Run,
    Study,
    average,
    by_seed,
    difference,
    each,
    heads,
    runs_of,
    runs_shared_with,
    spread,
    tested,
    tested_loss,
)

SUMMARY, DETAILS = ROOT / "docs" / "results.md", ROOT / "results" / "details.md"
#: Rows of ``ten-epochs`` that fail to train, so the analysis of variance leaves them out.
RUINED = ("Sub., encoder", "Out., all")
_BASELINE, _LARGER = "Baseline", "Baseline, encoder feed-forward 384"
_MORE = "more_sacrebleu"


def summary(rows: Rows, study: Study, _: Kept) -> dict[str, Cells]:
    """Return the short table: intervals by row, and the smallest detectable difference."""
    bleu = study.bleu(rows)
    return {
        label: [str(len(runs)), average(runs, "sacrebleu", 2), bleu[label][0], bleu[label][2]]
        for label, runs in rows.items()
    }


def tuned(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the short table with intervals of the loss."""
    lines, (base, *others) = summary(rows, study, kept), rows.values()
    losses = ["", *(difference(_loss_test(base, runs), 3) for runs in others)]
    return {label: [*lines[label], loss] for label, loss in zip(lines, losses, strict=True)}


def _loss_test(base: Sequence[Run], runs: Sequence[Run]) -> Difference | None:
    """Compare the validation loss of two rows whose seeds are not paired."""
    return welch([r["logged_nll"] for r in base], [r["logged_nll"] for r in runs], VALID_STEP)


def to_the_end(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the table of the full recipe."""
    lines = replication(rows, study, kept)
    return {label: [*line, *heads(rows[label]), None] for label, line in lines.items()}


def replication(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the table of the replication."""
    bleu, loss = study.bleu(rows), tested_loss(rows)
    return {
        label: [str(len(runs)), each(runs, "sacrebleu", 2), average(runs, "sacrebleu", 2)]
        + [*bleu[label][:2], average(runs, "chrf", 2)]
        + [each(runs, "logged_nll", 3), *loss[label]]
        for label, runs in rows.items()
    }


def other_sets(rows: Rows, *_) -> dict[str, Cells]:
    """Return the scores on the other test sets."""
    return {
        label: [str(len(runs)), each(runs, _MORE, 2), average(runs, _MORE, 2), *[None] * 6]
        for label, runs in rows.items()
    }


def ten_epochs(rows: Rows, _: Study, kept: Kept) -> dict[str, Cells]:
    """Return the table of the small recipe; scores of unpublished runs are kept.

    These are rounded, so a kept difference stays if it is off by one in its last digit.
    """
    columns = TABLES["ten-epochs"].headings[1:]
    labels = [row.label for row in PAPERS["study"]["translation-small"].rows]
    lines: dict[str, Cells] = {label: [] for label in labels}
    for first, column, digits, step in ((0, "sacrebleu", 2, 0), (4, "logged_nll", 3, VALID_STEP)):
        ours = by_seed(rows, column)
        scores = {
            label: {
                n: float(cell)
                for n in (1, 2)
                if (cell := kept.cell("ten-epochs", label, columns[first + n - 1]))
            }
            | {n: round(v, digits) for n, v in ours.get(label, {}).items()}
            for label in labels
        }
        usual = {k: s for k, s in scores.items() if len(s) > 1 and k not in RUINED}
        tests, base = tested(usual, digits, step), next(iter(scores.values()))
        for label, values in scores.items():
            published = ours.get(label, {})
            gap = mean(values.values()) - mean(base[seed] for seed in values)
            test, *p = tests.get(label, [f"{gap:+.{digits}f} †", ""])
            known = kept.cell("ten-epochs", label, columns[first + 2])
            for n in (1, 2):
                unpublished = n in values and n not in published
                lines[label] += [None if unpublished else each_of(values, n, digits)]
            lines[label] += [None if known and near(test, known) else test, *p]
    for label in labels:
        runs = rows.get(label, [])
        scored = sum(cell != "" for cell in lines[label][:2])
        lines[label] += heads(runs) if len(runs) == scored else [None] * 5
    return lines


def each_of(values: Mapping[int, float], seed: int, digits: int) -> str:
    """Format the score of a seed; empty without one."""
    return f"{values[seed]:.{digits}f}" if seed in values else ""


def near(one: str, other: str) -> bool:
    """Return True if two differences, as text, differ by at most one in the last digit."""
    (first, *rest), (second, *others) = one.split(" "), other.split(" ")
    unit = 10 ** -len(first.partition(".")[2])
    return rest == others and abs(float(first) - float(second)) < 1.5 * unit


def fair_trial(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the smaller fair trial: the summary with p-values and every seed."""
    bleu, (base, *others) = study.bleu(rows), rows.values()
    losses = [None, *(_loss_test(base, runs) for runs in others)]
    corrected = holm([loss and loss.p for loss in losses])
    lines = {}
    for (label, runs), loss, p in zip(rows.items(), losses, corrected, strict=True):
        lines[label] = [str(len(runs)), each(runs, "sacrebleu", 2), average(runs, "sacrebleu", 2)]
        lines[label] += [*bleu[label][:3], each(runs, "logged_nll", 3)]
        lines[label] += [difference(loss, 3), p_value(p)]
    return lines


def second_corpus(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the table of the second corpus; the loss is described, not tested."""
    lines = fair_trial(rows, study, kept)
    return {label: [*line[:-1], *heads(rows[label])[:2]] for label, line in lines.items()}


def family(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the methods since, one seed each; entropy is not in the archive, but kept."""
    bleu = study.bleu(rows)
    return {
        label: [average(runs, "sacrebleu", 2), bleu[label][0], average(runs, "logged_nll", 3)]
        + [*heads(runs)[:2], None, None]
        for label, runs in rows.items()
    }


def family_by_seeds(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the methods since that have three seeds."""
    bleu = study.bleu(rows)
    return {
        label: [spread(runs, "sacrebleu", 2), *bleu[label][:3], spread(runs, "logged_nll", 3)]
        for label, runs in rows.items()
    }


def in_float32(rows: Rows, study: Study, kept: Kept) -> dict[str, Cells]:
    """Return the table of the rows in float32."""
    bleu, loss, scores = study.bleu(rows), tested_loss(rows), by_seed(rows, "sacrebleu")
    return {
        label: [f"{scores[label][n]:.2f}" if n in scores[label] else "" for n in range(2, 6)]
        + [average(runs, "sacrebleu", 2), *bleu[label][:2]]
        + [each(runs, "logged_nll", 3), *loss[label], *heads(runs)[:2]]
        for label, runs in rows.items()
    }


def language_models(rows: Rows, *_) -> dict[str, Cells]:
    """Return the table of perplexities."""
    differences, loss = tested(by_seed(rows, "test_perplexity"), 2), tested_loss(rows)
    return {
        label: [f"{run[f'{s}_perplexity']:.2f}" for s in ("valid", "test") for run in runs]
        + [*differences[label], *loss[label]]
        for label, runs in rows.items()
    }


def heads_of_language_models(rows: Rows, *_) -> dict[str, Cells]:
    """Return the table of the language models' heads."""
    papers = {row.label: row.cells[0].paper for row in PAPERS["study"]["ptb"].rows}
    lines = {}
    for label, runs in rows.items():
        svcca, cka, *_, jsd = heads(runs)
        lines[label] = [svcca, cka, f"{float(jsd):.1f}", None]
        lines[label] += [average(runs, "test_perplexity", 2), f"{papers[label]:.2f}"]
    return lines


def logic(rows: Rows, *_) -> dict[str, Cells]:
    """Return the table of accuracies, with one row for each run."""
    columns = [(f"accuracy_test{n}", 1) for n in range(1, 13)]
    columns += [("accuracy_seen", 1), ("accuracy_unseen", 1), ("accuracy", 2)]
    lines = {}
    for label, run in ((label, run) for label, runs in rows.items() for run in runs):
        name = label + (f", seed {run.seed}" if run.seed > 1 else "")
        lines[name] = [f"{run[c]:.{digits}f}" for c, digits in [*columns, ("accuracy_valid", 1)]]
    return lines


def _of_the_trial(run: Run) -> str | None:
    """Return the label of a run of the fair trial; the baseline's seed 13 is of ``family``.

    Seeds from 21 on belong to results/plans/em-routing.md.
    """
    small = runs_of("translation-small", "fair-trial-small", seeds=range(21))
    later = ("baseline", 13)
    return small(run) if (run.values["row"], run.seed) != later else None


def _of_other_sets(run: Run) -> str | None:
    return run.label if run.values[_MORE] else None


def _of_float32(run: Run) -> str | None:
    return run.label if run.float32 else None


def _labels(table: str, without: Sequence[str]) -> list[str]:
    return [row.label for row in PAPERS["study"][table].rows if row.label not in without]


@dataclass(frozen=True)
class Written:
    """A table of a page."""

    page: Path
    heads: str  # the headings, separated by " | "
    label: Callable[[Run], str | None]  # returns the label of a run's row; None: not in this table
    cells: Callable[[Rows, Study, Kept], dict[str, Cells]]
    rows: Sequence[str] | None = None  # labels of the rows shown, in order; None: all

    @property
    def headings(self) -> list[str]:
        """The headings."""
        return self.heads.split(" | ")

    def lines(self, name: str, study: Study, kept: Kept) -> dict[str, list[str]]:
        """Return the cells by label, completed from ``kept``, which takes those of the corpora."""
        rows = study.rows(self.label)
        if self.rows is not None:
            rows = {label: rows[label] for label in self.rows if label in rows}
        found = self.cells(rows, study, kept) if rows else {}
        return {
            label: [
                kept.complete(name, label, *pair)
                for pair in zip(self.headings[1:], cells, strict=True)
            ]
            for label, cells in found.items()
        }

    def text(self, lines: Mapping[str, Sequence[str]]) -> str:
        """Return the table in Markdown."""
        table = [self.headings, ["---"] * len(self.headings)]
        table += [[label, *cells] for label, cells in lines.items()]
        return "".join(f"| {' | '.join(row)} |\n" for row in table).replace("| --- ", "|---")


#: Name -> table.
TABLES = {
    "summary": Written(
        SUMMARY,
        "method | seeds | BLEU | difference (95 %) | detectable",
        TO_THE_END,
        summary,
    ),
    "to-the-end": Written(
        DETAILS,
        "method, to the end | seeds | BLEU, each seed | mean | difference (95 %) | p | "
        "chrF | valid nll, each seed | difference of nll (95 %) | p of nll | SVCCA | CKA | "
        "exp(D) Sub. | exp(D) Out. | JSD | cost",
        TO_THE_END,
        to_the_end,
        rows=(_BASELINE, _LARGER, *_labels("translation", without=(_BASELINE, _LARGER))),
    ),
    "replication": Written(
        DETAILS,
        "method, replication | seeds | BLEU, each seed | mean | difference (95 %) | p | "
        "chrF | valid nll, each seed | difference of nll (95 %) | p of nll",
        runs_of("translation", seeds=range(6, 99)),
        replication,
    ),
    "other-sets": Written(
        DETAILS,
        "method, 2,532 other sentences | seeds | BLEU, each seed | mean | "
        "difference (95 %) | p | chrF | Flickr 2017 | Flickr 2018 | COCO 2017",
        _of_other_sets,
        other_sets,
    ),
    "ten-epochs": Written(
        DETAILS,
        "method | seed 1 | seed 2 | difference (95 %) | p | valid nll, seed 1 | "
        "valid nll, seed 2 | difference of nll (95 %) | p of nll | SVCCA | CKA | "
        "exp(D) Sub. | exp(D) Out. | JSD",
        runs_of("translation-small", seeds=(1, 2)),
        ten_epochs,
    ),
    "fair-trial": Written(
        DETAILS,
        "method, at its best | seeds | BLEU by seed | mean | difference (95 %) | p | "
        "could find | valid nll by seed | difference of nll (95 %) | p of nll",
        _of_the_trial,
        fair_trial,
        rows=(
            _BASELINE,
            "RealFormer",
            "RealFormer, mean",
            "CODA",
            "CODA, rate 0.002",
            "CODA-CS",
            "EM routing, layers 1-2",
            "Headwise gate",
            "HSIC 1e-7",
            "RealFormer, decoder alone",
            "RealFormer, encoder and cross",
        ),
    ),
    "tuned": Written(
        SUMMARY,
        "method, tuned | seeds | BLEU | difference (95 %) | detectable | loss difference (95 %)",
        _of_the_trial,
        tuned,
        rows=(
            _BASELINE,
            "RealFormer",
            "RealFormer, mean",
            "CODA, rate 0.002",
            "CODA-CS",
            "EM routing, layers 1-2",
            "Headwise gate",
            "HSIC 1e-7",
        ),
    ),
    "tatoeba": Written(
        DETAILS,
        "method, Tatoeba | seeds | BLEU by seed | mean | difference (95 %) | p | "
        "could find | valid nll by seed | difference of nll (95 %) | SVCCA | CKA",
        runs_of("tatoeba", seeds=range(21)),
        second_corpus,
    ),
    "float32": Written(
        DETAILS,
        "method, in float32 | seed 2 | seed 3 | seed 4 | seed 5 | mean | difference (95 %) | "
        "p | valid nll, each seed | difference of nll (95 %) | p of nll | SVCCA | CKA",
        _of_float32,
        in_float32,
    ),
    "family": Written(
        DETAILS,
        "`multi30k_small`, seed 11 | sacreBLEU | difference (95 %, sentences) | valid nll | "
        "SVCCA | CKA | entropy, decoder 2 to 4 | share above 0.95",
        runs_shared_with("family", seeds=(11,)),
        family,
        rows=(
            _BASELINE,
            "RealFormer",
            "Headwise gate",
            "EM routing, layers 1-2",
            "QK-norm",
            "QK-norm + RealFormer",
            "Sink",
            "Value residual",
            "Knocking heads",
            "Elementwise gate",
            "Exclusive",
        ),
    ),
    "family-seeds": Written(
        DETAILS,
        "three seeds | sacreBLEU | difference (95 %) | p, Holm | found by 80 % power | valid nll",
        runs_shared_with("family", seeds=(11, 12, 13)),
        family_by_seeds,
        rows=(_BASELINE, "QK-norm", "Exclusive"),
    ),
    "heads": Written(
        DETAILS,
        "number of heads | seeds | sacreBLEU | valid nll | SVCCA | CKA | exp(D) Sub. | "
        "exp(D) Out. | JSD",
        trends.OF_HEAD_COUNTS,
        trends.head_counts,
    ),
    "heads-gain": Written(
        DETAILS,
        "gain by heads | 1 | 2 | 4 | 8 | 16 | slope a doubling (95 %)",
        trends.OF_HEAD_COUNTS,
        trends.gains,
    ),
    "held-cka": Written(
        DETAILS,
        "held | weight | seeds | CKA | farthest layer | sacreBLEU | valid nll | SVCCA | "
        "exp(D) Out. | JSD",
        trends.OF_HELD,
        trends.held,
    ),
    "held-cka-fit": Written(
        DETAILS,
        "parabola of | runs | curvature (95 %) | best at | within chance of the best",
        trends.OF_HELD,
        trends.parabolas,
    ),
    "output-weight": Written(
        DETAILS,
        "row by weight | valid nll | difference | sacreBLEU | SVCCA | CKA | exp(D) Sub. | "
        "exp(D) Out. | JSD",
        trends.OF_OUTPUT_WEIGHT,
        trends.by_output_weight,
    ),
    "drophead-forms": Written(
        DETAILS,
        "Drophead's form | SVCCA less the baseline's | sacreBLEU | valid nll | SVCCA | CKA | "
        "exp(D) Sub. | exp(D) Out. | JSD",
        trends.OF_DROPHEAD_FORMS,
        trends.drophead_forms,
    ),
    "ptb": Written(
        DETAILS,
        "row, Penn Treebank | validation, seed 1 | validation, seed 2 | validation, seed 3 | "
        "test, seed 1 | test, seed 2 | test, seed 3 | difference of test (95 %) | p | "
        "difference of loss (95 %) | p of loss",
        runs_of("ptb"),
        language_models,
    ),
    "ptb-dropout": Written(
        DETAILS,
        "row by dropout | test | gain | validation | SVCCA | CKA | JSD",
        trends.OF_DROPOUT,
        trends.by_dropout,
    ),
    "ptb-heads": Written(
        DETAILS,
        "row | SVCCA | CKA | JSD | cost | mean of test | the paper's test",
        runs_of("ptb"),
        heads_of_language_models,
    ),
    "logic": Written(
        DETAILS,
        "row, logic | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 1-6 | 7-12 | 1-12 | "
        "validation",
        runs_of("logic"),
        logic,
    ),
}


def written(study: Study, tables: Sequence[str] = tuple(TABLES)) -> dict[Path, str]:
    """Return the pages with these tables, and ``kept.csv``, as the runs say."""
    known = Kept.read(kept.FILE)
    pages = {
        path: path.read_text(encoding="utf-8")
        for path in dict.fromkeys(TABLES[name].page for name in tables)
    }
    for name in tables:
        table = TABLES[name]
        text = table.text(table.lines(name, study, known))
        pages[table.page] = between_markers(pages[table.page], name, text, table.page)
    return {**pages, kept.FILE: known.to_csv(tables)}


def between_markers(page: str, name: str, text: str, path: Path) -> str:
    """Return a page with a table's text between its markers."""
    marked = re.compile(rf"(<!-- table: {name} -->\n\n).*?(\n<!-- end of table -->)", re.DOTALL)
    if len(marked.findall(page)) != 1:
        raise UserError(
            f"{path}: needs one <!-- table: {name} --> and <!-- end of table -->; add it"
        )
    return marked.sub(lambda match: match[1] + text + match[2], page)


def differences(files: Mapping[Path, str]) -> Iterator[str]:
    """Yield a message for each line of files that differs from the text that the runs give."""
    for path, text in files.items():
        ours, there = text.splitlines(), path.read_text(encoding="utf-8").splitlines()
        for tag, a, b, c, d in SequenceMatcher(None, there, ours, autojunk=False).get_opcodes():
            if tag != "equal":
                yield f"{path}:{a + 1}: {there[a:b]}, the runs say {ours[c:d]}"


def check_all(study: Study, folder: Path | None = None) -> list[str]:
    """List the lines of pages and CSV files that differ from a folder's or the archive's runs."""
    folder = folder or study.unpacked
    files = archive.csv_files(archive.read_runs(folder), study.data)
    return [*differences(written(study) | files)]


def main(words: Sequence[str] | None = None) -> int:
    """Carry out the command; its exit code is 1 if something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m results.tables", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "table",
        nargs="?",
        choices=TABLES,
        metavar="TABLE",
        help=f"print it, and write nothing: {', '.join(TABLES)}",
    )
    todo = parser.add_mutually_exclusive_group()
    text = "write nothing; compare pages and CSVs with the runs"
    todo.add_argument("--check", action="store_true", help=text)
    for name, text in (
        ("draw", "draw the four pictures study-*.png of docs/figures"),
        ("pack", "write the archive and CSVs in results/ from these runs"),
        ("unpack", "unpack the runs into FOLDER; existing runs stay"),
    ):
        todo.add_argument(f"--{name}", type=Path, metavar="FOLDER", help=text)
    text = "prepared corpora (default: data); BLEU is tested on those that are there"
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="FOLDER", help=text)
    args = parser.parse_args(words)
    for option in ("pack", "unpack", "draw", "check"):
        if vars(args)[option] and args.table:
            parser.error(f"{args.table} has no effect with --{option}; leave it out")
    if args.unpack:
        print(archive.unpack_missing(args.unpack))
        return 0
    study, wrong = Study(args.data), []
    if args.pack:
        print(archive.write(args.pack, study.data))
    elif args.draw:
        from results.figures import draw

        print(*draw(study, args.draw))
    elif args.check:
        wrong = check_all(study)
        agree = f"{len(study.runs)} runs: pages and CSVs agree"
        print(*(line.replace(f"{ROOT}/", "") for line in wrong or [agree]), sep="\n")
    elif args.table:
        table = TABLES[args.table]
        lines = table.lines(args.table, study, Kept.read(kept.FILE))
        print(f"**{args.table}**\n\n{table.text(lines)}")
    else:
        files = written(study)
        write_files({path: text.encode() for path, text in files.items()})
        print(f"{len(study.runs)} runs: {', '.join(str(path) for path in files)}")
    for message in sorted(study.lacking):
        print(message.replace(f"{ROOT}/", ""), file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    run_cli(main)
