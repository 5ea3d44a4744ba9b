"""Prints the settings of a recipe's experiment as bash variables, for ``scripts/run.sh``."""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from diverse_mha.common.errors import OneLineParser, UserError, add_number, run_cli
from diverse_mha.common.files import ROOT, USER_DIR, read_json
from diverse_mha.corpora.prepared import preparation
from diverse_mha.evaluation.pipeline import Pipeline, read_pipeline
from diverse_mha.training import compose, train
from diverse_mha.training.request import Request

USAGE = """\
usage: bash scripts/run.sh RECIPE [key=value ...] [options]

Prepares a recipe's corpus, trains, averages checkpoints if the recipe says so,
translates and scores. Each step shows its command. Run the command again to
resume: finished steps are skipped, and a changed recipe is refused.

  RECIPE          a file, or the name of one in configs/
  key=value       changes the recipe; task.data=DATA is a prepared corpus of yours
  --processes N   train on N GPUs, or in N processes on a CPU (default: all GPUs,
                  or one process). The batch of an update stays the same if N divides the
                  recipe's optimization.update_freq; otherwise it is rounded, with a note
  --from FOLDER   take the corpus's files from there instead of downloading them
  --data FOLDER   prepare the corpus there (default: the recipe's folder)
  --print         show the commands and run none
  -h, --help      show this help

examples:
  bash scripts/run.sh multi30k_small method=hsic checkpoint.save_dir=runs/hsic
  bash scripts/run.sh wmt14_en_de_google method=coda size=base
"""
#: Kind of model -> evaluation script, and suffixes of the result files, the test set's last.
_EVALUATIONS = {
    "translation": ("evaluate.sh", ["test"]),
    "language_model": ("evaluate-lm.sh", ["valid", "test"]),
    "classifier": ("evaluate-classifier.sh", ["accuracy"]),
}
_CHOICE = re.compile(r"\$\{hydra:runtime\.choices\.(\w+)\}")


def values(words: Sequence[str], *, check: bool = False) -> dict[str, object]:
    """Return the bash variables by name: strings, numbers and lists of words.

    With ``check``, settings are refused that a training on this machine would refuse.
    """
    parser = OneLineParser(prog="run.sh", add_help=False, allow_abbrev=False)
    parser.add_argument("recipe")
    add_number(parser, "processes", None, "")
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--print", action="store_true")
    options, settings = parser.parse_known_args(words)
    setting = "=" in options.recipe and not options.recipe.endswith(".yaml")  # else a path
    if setting or options.recipe.startswith("-"):
        raise UserError(f"{options.recipe}: name the recipe first, such as multi30k_small")
    if unknown := next((word for word in settings if word.startswith("-")), None):
        raise UserError(f"{unknown}: there is no such option; see bash scripts/run.sh --help")
    given = {word.lstrip("+").partition("=")[0] for word in settings}
    if options.data is not None:
        if "task.data" in given:
            raise UserError(f"--data {options.data}: contradicts task.data; give one of them")
        settings = [*settings, f"task.data={options.data / 'bin'}"]
    called = [] if options.processes is None else ["--processes", str(options.processes)]
    called += ["--config", options.recipe, *settings]
    job = train.parse(called)
    pipeline = read_pipeline(job.recipe, job.config)
    if check:
        from diverse_mha.training import batch, checks, precision

        checks.check(job)
        batch.choose(job)
        if not options.print:
            precision.choose(job)
    _check_average(job, pipeline)
    data = _place(job, "task", "data")
    run = _place(job, "checkpoint", "save_dir")
    if "task.data" in given and options.source is not None:
        raise UserError(
            f"--from {options.source}: has no effect with task.data; use --data instead"
        )
    prepare = [] if "task.data" in given else _prepare(pipeline, Path(data), options)
    if check and not prepare and not options.print:
        _check_corpus(pipeline, data)
    model = f"{run}/{'averaged' if pipeline.average else 'checkpoint_best'}.pt"
    script, results = _EVALUATIONS[pipeline.kind]
    time = (job.recipe.get("scoring") or {}).get("time")
    takes = f" (with the recipe unchanged: {time})" if time else ""
    return {
        "about": f"{job.config.stem}: corpus {data}, run {run}{takes}",
        "prepare": prepare,
        "train": called,
        "average": pipeline.average,
        "average_by": pipeline.average_by,
        "run": run,
        "data": data,
        "model": model,
        "evaluate": script,
        "options": [*_languages(job, pipeline), *pipeline.options, *_everywhere(job)],
        "results": results,
        "subset": "--subset" if pipeline.kind == "language_model" else "",
        "score": pipeline.score,
        "print": "yes" if options.print else "",
    }


def _check_corpus(pipeline: Pipeline, data: str) -> None:
    """Raise an error if a prepared corpus lacks a split, or tokens, to score after the training.

    A classifier is scored on the splits that there are.
    """
    folder = Path(data.split(os.pathsep)[0])
    splits = () if pipeline.kind == "classifier" else _EVALUATIONS[pipeline.kind][1]
    for split in splits if folder.is_dir() else ():
        if not any(folder.glob(f"{split}.*")):
            raise UserError(
                f"task.data={data}: has no split {split}, which run.sh scores after the training; "
                "add one, or train with train.sh"
            )
    if pipeline.score == "compound_split_bleu" and not _tokenised(folder):
        raise UserError(
            f"scoring.score={pipeline.score}: task.data={data} was not tokenised; give "
            "scoring.score=sacrebleu"
        )


def _tokenised(folder: Path) -> bool:
    return preparation(folder).tokeniser["tokeniser"] != "none"


def _check_average(job: Request, pipeline: Pipeline) -> None:
    """Raise an error if the training would not keep the checkpoints that are to be averaged."""
    count = pipeline.average
    if not count:
        return

    def number(key: str) -> int:
        return job.number("checkpoint", key) or 0

    if pipeline.average_by == "update":
        saves, keeps = number("save_interval_updates") > 0, "keep_interval_updates"
        cure = f"++checkpoint.save_interval_updates=N ++checkpoint.{keeps}={count}"
    else:
        saves, keeps = not job.flag("checkpoint", "no_epoch_checkpoints"), "keep_last_epochs"
        cure = f"++checkpoint.no_epoch_checkpoints=false ++checkpoint.{keeps}={count}"
    kept = number(keeps)  # fairseq keeps all if it is not positive
    if not (saves and (kept <= 0 or kept >= count)):
        raise UserError(
            f"scoring.average={count}: the training would not keep {count} checkpoints; add {cure}"
        )


def _place(job: Request, group: str, key: str) -> str:
    """Return a folder that the recipe sets, without Hydra's prefix for the current folder."""
    folder = job.setting(group, key)
    if folder is None or folder == "???":
        raise UserError(f"{job.config}: has no {group}.{key}; add {group}.{key}=FOLDER")
    choices = compose.groups_of(job.config) | compose.parse_overrides(job.arguments)[0]
    folder = folder.replace("${hydra:runtime.cwd}/", "")
    folder = _CHOICE.sub(lambda match: str(choices.get(match[1])), folder)
    if "${" in folder:
        raise UserError(
            f"{job.config}: cannot resolve {group}.{key}={folder}; give {group}.{key}=FOLDER"
        )
    return folder


def _prepare(pipeline: Pipeline, data: Path, options) -> list[str]:
    """Return the command that prepares the corpus: a script of ``data-prep/`` and its options."""
    if not pipeline.prepare:
        if options.source is not None:
            raise UserError(
                f"--from {options.source}: {options.recipe} has no scoring.prepare; add one"
            )
        return []
    script, *words = pipeline.prepare
    if not (ROOT / "data-prep" / script).is_file():
        raise UserError(
            f"{options.recipe}: scoring.prepare={script}: not in data-prep/; correct it"
        )
    if "--out" not in words:
        words += ["--out", str(data.parent)]
    elif options.data is not None:
        raise UserError(f"--data {options.data}: scoring.prepare has --out; change --out there")
    return [script, *words, *(["--from", str(options.source)] if options.source else [])]


def _languages(job: Request, pipeline: Pipeline) -> list[str]:
    target = job.setting("task", "target_lang")
    return ["--target-lang", target] if target and pipeline.kind == "translation" else []


def _everywhere(job: Request) -> list[str]:
    """Return the options for all commands that load the model."""
    words = ["--cpu"] if job.flag("common", "cpu") else []
    plugin = (job.setting("common", "user_dir") or "").replace("${hydra:runtime.cwd}/", "")
    if plugin and Path(plugin).name != USER_DIR.name:
        words += ["--user-dir", plugin]
    return words


def score_of(name: str, result: Mapping) -> float:
    """Return a score of an evaluation's result; accuracy is over all test sets together.

    A corpus without a test set has the accuracy over all splits that were evaluated.
    """
    if name != "accuracy":
        return result[name]
    subsets = result["subsets"]
    parts = [subsets[split] for split in _tests_in(result) or subsets]
    right = sum(part["accuracy"] * part["examples"] for part in parts)
    return right / sum(part["examples"] for part in parts)


def _tests_in(result: Mapping) -> list[str]:
    """Return the test sets of a classifier's result."""
    return [split for split in result["subsets"] if split.startswith("test")]


def main(words: Sequence[str]) -> int:
    """Print the variables, or with ``--score NAME FILE`` a score of a result."""
    if words[:1] == ["--score"]:
        name, file = words[1:]
        # All files of its name: run.sh repeats no step whose log is there.
        result = read_json(Path(file), f"delete {Path(file).stem}.* there and run again")
        others = [] if name != "accuracy" or _tests_in(result) else result["subsets"]
        of = f" of {', '.join(others)}, as there is no split test*" if others else ""
        if name == "tokenised_bleu" and name not in result:
            name, of = "sacrebleu", ", as the corpus was not tokenised"
        print(f"\n{name} {score_of(name, result):.2f}{of}: {file}")
        return 0
    if not words or {"-h", "--help"} & set(words):
        print(USAGE, end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    for name, value in values(words, check=True).items():
        several = isinstance(value, list)
        print(f"{name}=" + (f"({shlex.join(value)})" if several else shlex.quote(str(value))))
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
