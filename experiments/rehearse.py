"""``diverse-mha reproduce --rehearse``: builds every distinct model once, at its real size.

Each model is a ``diverse-mha run`` of one update and one validation, in float32 on the CPU, on
random text with a dictionary of the real size. The run averages its checkpoint, and evaluates on a
sentence (a classifier: on eight).
"""

import csv
import itertools
import json
import random
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_text
from diverse_mha.common.tables import csv_text
from diverse_mha.corpora.binarise import binarise, count_words
from diverse_mha.corpora.text import write_lines
from diverse_mha.training.read_log import TRAIN_LOG, read_log
from experiments import runs
from experiments.numbers import Plan
from experiments.runner import LOG, check_ended, side_by_side, start_logged
from experiments.runs import Place, Run

#: Recipe -> sizes of its dictionaries; a single number is that of the only one. The sizes of Li et
#: al. follow from the parameters of their Base and Big models, the others from the preparation.
TYPES = {
    "wmt14_en_de": (28_548, 28_548),
    "wmt17_zh_en": (41_572, 41_572),
    "wmt14_en_de_google": (32_768,),
    "iwslt14_de_en": (8_844, 6_628),
    "iwslt17_de_en": (16_384,),
    "wmt17_de_en": (16_384,),
    "un_ru_en": (16_384, 16_384),
    "un_zh_en": (16_384, 16_384),
    "ptb": (9_999,),
    "wiki103": (267_735,),
    "probing": (30_000,),  # assumed
    "logic": (11,),
}
#: Settings of one update, whose checkpoint is averaged.
BRIEF = {
    "common.fp16": False,
    "common.log_format": "json",
    "dataset.num_workers": 0,
    "optimization.max_epoch": 0,
    "optimization.max_update": 1,
    "optimization.update_freq": [1],
    "checkpoint.save_interval_updates": 1,
    "checkpoint.keep_interval_updates": 1,
    "scoring.average_by": "update",
}
OF_KIND = {
    # After one update a model never ends a sentence by itself.
    "translation": {
        "dataset.max_tokens": 512,
        "generation.max_len_a": 0,
        "generation.max_len_b": 10,
    },
    "classifier": {"dataset.batch_size": 4},
}
COLUMNS = (
    *("recipe", "size", "method", "other settings", "runs", "parameters", "paper's parameters"),
    *("seconds", "peak GiB", "failure"),
)
SPLITS = ("train", "valid", "test")


def shapes(runs: Iterable[Run]) -> Iterator[tuple[Run, list[Run]]]:
    """Group runs with equal models, terms and optimizers; yield each group's first run and runs."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        parts = [run.composed.get(group) for group in ("model", "criterion")]
        key = [run.recipe.config, run.composed["optimizer"]["_name"], *map(_without_values, parts)]
        groups.setdefault(json.dumps(key, sort_keys=True), []).append(run)
    for group in groups.values():
        yield group[0], group


def _without_values(settings: Mapping) -> dict:
    """Replace weights and rates by True if they are not 0, else by False."""
    return {k: bool(v) if isinstance(v, float) else v for k, v in settings.items()}


def rehearse(plans: Sequence[Plan], out: Path) -> bool:
    """Rehearse the models of tables from the smallest up, and write a table.

    Returns:
        True if no model failed.
    """
    papers: dict[Run, float | None] = {}  # run -> number of parameters, if the paper gives it
    for plan in plans:
        for row in plan.table.rows:
            for column, cell in zip(plan.table.columns, row.cells, strict=True):
                for need in plan.of(row, column).values():
                    given = cell.measure == "parameters" and cell.paper
                    papers[need.run] = given or papers.get(need.run)
    models = sorted(shapes(papers), key=lambda model: _size(model[0]))
    file = out / "rehearsal.csv"
    rows, failed = _earlier(file), 0
    for number, (run, group) in enumerate(models, start=1):
        key = run.recipe.config, run.choices.get("size", ""), run.choices["method"], _others(run)
        again = " (already done)" if key in rows and not rows[key][-1] else ""
        if not again:
            parameters, *rest = _carry_out(run, out / "rehearsal")
            rows[key] = [*key, len(group), parameters, "", *rest]
        paper = next((papers[one] for one in group if papers.get(one)), "")
        rows[key][4:7] = [len(group), rows[key][5], paper]
        failed += bool(rows[key][-1])
        print(f"[{number}/{len(models)}] {run.name}: {_line(rows[key])}{again}", flush=True)
        write_text(file, csv_text([COLUMNS, *rows.values()]))
    print(f"{len(models)} models, {failed} failed; written: {file}")
    return not failed


def _earlier(file: Path) -> dict[tuple, list]:
    """Return the rows of earlier rehearsals, of any table, by their first four columns."""
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {tuple(row[:4]): row for row in [*csv.reader(lines)][1:]}


def _line(row: Sequence) -> str:
    parameters, paper, seconds, peak, failure = row[-5:]
    if failure:
        return f"FAILED: {failure}"
    beside = f" (paper {float(paper) / 1e6:.2f}M)" if paper else ""
    return f"{int(parameters) / 1e6:.2f}M parameters{beside}, {seconds} s, {peak} GiB"


def _others(run: Run) -> str:
    """Return the settings that distinguish a row from others, without those of a corpus."""
    own = ("model.", "criterion.")
    shown = {k: v for k, v in run.settings.items() if k.startswith(own) and k != "model._name"}
    return " ".join(f"{k.partition('.')[2]}={v}" for k, v in shown.items())


def _size(run: Run) -> int:
    """Return an estimate of a model's number of parameters."""
    model = run.composed["model"]
    widths = [value for key, value in model.items() if key.endswith("embed_dim")]
    width = max([512, *widths] if not widths else widths[:1])
    layers = sum(v for k, v in model.items() if k.endswith("_layers") and isinstance(v, int)) or 12
    return width * (sum(TYPES[run.recipe.config]) + 12 * width * layers)


def _carry_out(run: Run, out: Path) -> tuple:
    """Rehearse a run; return parameters, seconds, peak GiB and failure."""
    place, folder, failure = Place(out=out, data=out / "data"), run.folder(out), ""
    short = replace(
        run,
        settings=run.settings | BRIEF | OF_KIND.get(run.pipeline.kind, {}),
        pipeline=replace(run.pipeline, average=1),
    )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begun = time.monotonic()
    random_corpus(run, run.data(place))
    step = runs.carry_out(short, place)
    command = start_logged(step, folder / LOG)
    side_by_side([iter([command])], 1)
    try:
        check_ended(step, command, folder / LOG)
    except UserError as error:
        failure = str(error)
    seconds, peak = round(time.monotonic() - begun, 1), round(command.peak_bytes / 2**30, 2)
    log = folder / TRAIN_LOG
    parameters = read_log(log)["parameters"] if log.is_file() else None
    if not failure:
        shutil.rmtree(folder)
    return parameters or "", seconds, peak, failure


def random_corpus(run: Run, folder: Path) -> None:
    """Make a prepared corpus of random text whose dictionaries have the real size."""
    done = folder.parent / "rehearsed"
    if done.is_file():
        return
    shutil.rmtree(folder.parent, ignore_errors=True)
    sides = TYPES[run.recipe.config]
    raw, tok = folder.parent / "raw", folder.parent / "tok"
    if run.pipeline.kind == "classifier":
        _classification(folder, sides[0], pairs=run.recipe.config == "logic")
    else:
        raw.mkdir(parents=True)
        languages = run.languages if run.pipeline.kind == "translation" else ("",)
        for number, language in enumerate(languages):
            for split, count in zip(SPLITS, (0, 1, 1), strict=True):
                suffix = f".{language}" if language else ""
                lines = _lines(sides[min(number, len(sides) - 1)], max(sides), count)
                write_lines(raw / f"{split}{suffix}", lines)
        shutil.copytree(raw, tok)
        _preprocess(tok, folder, languages, joined=len(sides) == 1)
    write_text(done, "")


def _lines(types: int, most: int, count: int) -> list[str]:
    """Return ``count`` random lines of words; with 0, lines that contain all ``types``.

    The lines with all types have ``most`` words in total, as on the other side.
    """
    if count:
        choose = random.Random(count).randrange
        return [" ".join(f"w{choose(types)}" for _ in range(12)) for _ in range(count)]
    words = [f"w{number % types}" for number in range(most)]
    return [" ".join(words[n : n + 40]) for n in range(0, most, 40)]


def _preprocess(raw: Path, folder: Path, languages: Sequence[str], *, joined: bool) -> None:
    from fairseq import options
    from fairseq_cli import preprocess

    words = ["--destdir", str(folder), "--workers", "1"]
    for split in SPLITS:
        words += [f"--{split}pref", str(raw / split)]
    if len(languages) == 1:
        words += ["--only-source"]
    else:
        words += ["--source-lang", languages[0], "--target-lang", languages[1]]
        words += ["--joined-dictionary"] if joined else []
    preprocess.main(options.get_preprocessing_parser().parse_args(words))


def _classification(folder: Path, types: int, *, pairs: bool) -> None:
    lines = _lines(types, types, 0)
    labels = [str(number) for number in range(7 if pairs else 2)]
    fields = ["input0", "input1"] if pairs else ["input0"]
    rows = {split: lines if split == "train" else lines[:1] * 8 for split in SPLITS}
    columns = {
        split: {field: texts for field in fields}
        | {"label": list(itertools.islice(itertools.cycle(labels), len(texts)))}
        | {"length": ["1"] * len(texts)}
        for split, texts in rows.items()
    }
    words = count_words(lines)
    dictionaries = dict.fromkeys(fields, words) | {"label": dict.fromkeys(labels, 1)}
    binarise(folder, dictionaries | {"length": {"1": 1}}, columns)
