"""``diverse-mha reproduce --rehearse``: builds every distinct model once, at its real size.

Each model does one update and one validation on random text with a dictionary of the real size, in
float32 on the CPU. Then its checkpoints are averaged, and the average is evaluated on a sentence (a
classifier: on eight).
"""

import csv
import importlib
import itertools
import json
import os
import random
import shutil
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from diverse_mha import cli
from diverse_mha.common.files import write_text
from diverse_mha.common.machine import resident_bytes
from diverse_mha.common.tables import csv_text
from diverse_mha.corpora.binarise import binarise, count_words
from diverse_mha.corpora.text import write_lines
from diverse_mha.evaluation import average, evaluate, evaluate_classifier, evaluate_lm  # noqa: F401
from diverse_mha.training import run as whole_run
from diverse_mha.training import train
from diverse_mha.training.read_log import TRAIN_LOG, read_log
from experiments.numbers import Choices
from experiments.papers import Table
from experiments.runs import Place, Run, recipe_words

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
BRIEF = {
    "common.fp16": False,
    "common.cpu": True,
    "common.log_format": "json",
    "dataset.num_workers": 0,
    "optimization.max_epoch": 0,
    "optimization.max_update": 1,
    "optimization.update_freq": [1],
}
SMALL_BATCH = {"translation": {"dataset.max_tokens": 512}, "classifier": {"dataset.batch_size": 4}}
COLUMNS = (
    *("recipe", "size", "method", "other settings", "runs", "parameters", "paper's parameters"),
    *("seconds", "peak GiB", "failure"),
)
MODULES = (
    *("diverse_mha.recipes.configuration", "fairseq_cli.train"),
    *("fairseq_cli.generate", "torch._dynamo"),
)
SPLITS = ("train", "valid", "test")
#: After one update a model never ends a sentence by itself.
SHORT_OUTPUT = ["--max-len-a", "0", "--max-len-b", "10"]


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


def rehearse(tables: Sequence[Table], choices: Choices, out: Path) -> bool:
    """Rehearse the models of tables from the smallest up, and write a table.

    Returns:
        True if no model failed.
    """
    papers: dict[Run, float | None] = {}  # run -> number of parameters, if the paper gives it
    for table in tables:
        for cell in (cell for row in table.rows for cell in row.cells if cell and cell.experiment):
            run = choices.run(cell.experiment, table, choices.seeds[0])
            papers[run] = (cell.measure == "parameters" and cell.paper) or papers.get(run)
    models = sorted(shapes(papers), key=lambda model: _size(model[0]))
    file = out / "rehearsal.csv"
    rows, failed = _earlier(file), 0
    for module in (
        "diverse_mha.recipes.configuration",
        "fairseq_cli.train",
        "fairseq_cli.generate",
        "torch._dynamo",
    ):
        importlib.import_module(module)  # once here, not in every child process
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
    """Rehearse a run in a process of its own; return parameters, seconds, peak GiB and failure."""
    place = Place(out=out, data=out / "data")
    short = replace(run, settings=run.settings | BRIEF | SMALL_BATCH.get(run.pipeline.kind, {}))
    folder = run.folder(out)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    receiver, sender = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_in_child, args=(short, place, sender))
    process.start()
    sender.close()
    try:
        seconds, peak, failure = receiver.recv()
    except EOFError:
        process.join()
        seconds, peak, failure = "", "", f"ended with exit code {process.exitcode}"
    process.join()
    log = folder / TRAIN_LOG
    parameters = read_log(log)["parameters"] if log.is_file() else None
    if not failure:
        shutil.rmtree(folder)
    return parameters or "", seconds, peak, failure


def _in_child(run: Run, place: Place, sender) -> None:
    """Train, average and evaluate; send seconds, peak GiB and the failure to ``sender``."""
    with (run.folder(place.out) / "log.txt").open("wb") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    begun, failure = time.monotonic(), ""
    try:
        random_corpus(run, run.data(place))
        experiment, _ = whole_run.parse(recipe_words(run, place))
        train.train(train.Job([], recipe=experiment.recipe))
        folder = experiment.run
        inputs = [str(folder / f"checkpoint_{name}.pt") for name in ("best", "last")]
        averaged = str(folder / "averaged.pt")
        cli.run(["average", *inputs, "--output", averaged])
        short = SHORT_OUTPUT if run.pipeline.kind == "translation" else []
        cli.run([experiment.command, averaged, experiment.data, *experiment.options(), *short])
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        failure = f"{type(error).__name__}: {error}".splitlines()[0]
    seconds = round(time.monotonic() - begun, 1)
    sender.send((seconds, round(resident_bytes()[1] / 2**30, 2), failure))


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
