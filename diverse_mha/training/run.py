"""``diverse-mha run``: a recipe's whole experiment, from the corpus to the score.

Each step is a command that a user could type. It is shown, and skipped if its record in the run's
folder says that it has made its outputs from these very inputs.
"""

import gc
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import le, lt
from pathlib import Path

from diverse_mha.common.errors import OneLineParser, UserError, add_number, called, run_cli
from diverse_mha.common.options import ANYWHERE
from diverse_mha.common.status import read_status
from diverse_mha.fairseq_fixes.save_folder import removed_if_refused
from diverse_mha.recipes.recipe import Recipe, read_recipe, spell
from diverse_mha.recipes.steps import read_pipeline
from diverse_mha.training import train
from diverse_mha.training.experiment import Experiment
from diverse_mha.training.read_log import TRAIN_LOG
from diverse_mha.training.score import print_score
from diverse_mha.training.steps import RECORD, Record, Step
from diverse_mha.training.train import RecipeJob
from diverse_mha.training.worker import RECIPE_FILE

USAGE = """\
usage: {run} RECIPE [key=value ...] [options]

Prepares a recipe's corpus, trains, averages checkpoints if the recipe says so,
translates and scores. Each step shows its command. Run the command again to
resume: finished steps are skipped, and a changed recipe is refused.

  RECIPE          a file, or the name of one in configs/
  key=value       changes the recipe; task.data=DATA is a prepared corpus of yours
  --processes N   train on N GPUs, or in N processes on a CPU (default: all GPUs,
                  or one process). The batch of an update stays the same if N divides
                  optimization.update_freq; otherwise it is rounded, with a note
  --from FOLDER   take the corpus's files from there instead of downloading them
  --data FOLDER   prepare the corpus there (default: the recipe's folder)
  --print         show the commands and run none
  -h, --help      show this help

The run's folder is runs/RECIPE/METHOD, with the size and the seed where they
differ from the recipe's; checkpoint.save_dir=FOLDER names another. It keeps the
composed recipe in recipe.yaml, which this command takes, too.

examples:
  {run} multi30k_small method=hsic
  {run} wmt14_en_de_google method=coda size=big
"""
REFUSED = 2  # exit code of our commands for a user error
_LIMITS = ("optimization.max_update", "optimization.max_epoch")
#: Settings that may differ in a finished run: of places and speed, and of the steps after it.
_FREE_GROUPS = ("distributed_training", "generation", "eval_lm", "scoring")
_FREE = ("checkpoint.save_", "checkpoint.keep_", "checkpoint.no_", "task.data")


def parse(words: Sequence[str]) -> tuple[Experiment, bool]:
    """Parse the command line; return the experiment, and True if it is only to be printed."""
    parser = OneLineParser(prog=called("run"), add_help=False, allow_abbrev=False)
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
        raise UserError(f"{unknown}: there is no such option; see {called('run')} --help")
    recipe = read_recipe(options.recipe, settings)
    if options.data is not None:
        if "task.data" in recipe.given:
            raise UserError(f"--data {options.data}: contradicts task.data; give one of them")
        # Not as given by the user, whose own corpus would need no preparation.
        recipe = recipe.changed({"task.data": str(options.data / "bin")})
        settings = [*settings, f"task.data={spell(str(options.data / 'bin'))}"]
    experiment = Experiment(
        options.recipe,
        recipe,
        read_pipeline(recipe.resolved, recipe.path),
        options.processes,
        options.source,
        options.data,
        settings,
    )
    return experiment, options.print


def main(words: Sequence[str]) -> int:
    """Carry out an experiment; return the exit code."""
    if not words or {"-h", "--help"} & set(words):
        print(USAGE.format(run=called("run")), end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    experiment, only_print = parse(words)
    prepare, training = experiment.preparation(), experiment.training()
    later = experiment.evaluation()
    if only_print:
        _check(experiment.recipe)
        experiment.check_average()
        for step in filter(None, [prepare, training, *later]):
            step.show()
        return 0
    time = experiment.recipe.get("scoring.time")
    takes = f" (with the recipe unchanged: {time})" if time else ""
    name, run = experiment.recipe.name, experiment.run
    print(f"{name}: corpus {experiment.data}, run {run}{takes}", flush=True)
    record = Record(run)
    job = RecipeJob(experiment.recipe, experiment.processes)
    go = None
    if not _is_finished(experiment, training, record):
        if prepare is None:
            experiment.check_corpus()
        go = train.start(job)  # refuses what cannot be trained, before the preparation
        experiment.check_average()
    for step in filter(None, [prepare, training, *later]):
        step.show()
        if step is training:
            code = _train(experiment, step, job, record, go)
            go = None
            _free_memory()
        else:
            code = _carry_out(step, record)
        if code:
            return code
    print_score(experiment.pipeline.score, later[-1].outputs[0])
    return 0


def _check(recipe: Recipe) -> None:
    from diverse_mha.recipes.configuration import configure

    configure(recipe)


def _carry_out(step: Step, record: Record) -> int:
    """Carry out a step unless its record says that it is done; return the exit code."""
    if record.steps.get(step.name) == record.of(step):
        return _say_done()
    code = step.carry_out()
    if not code and step.outputs:
        record.add(step.name, record.of(step))
    return code


def _say_done() -> int:
    print("(already done)", flush=True)
    return 0


def _is_finished(experiment: Experiment, training: Step, record: Record) -> bool:
    """Return True if the training has ended, and was of this very recipe.

    Raises:
        UserError: if the recipe has changed, but for limits that let the training go on, or if the
            checkpoint is another one.
    """
    status, kept = read_status(experiment.run), experiment.run / RECIPE_FILE
    known = record.steps.get("train")
    if status is None or not status.finished or not kept.is_file():
        return False
    if known is None or not known.get("outputs"):  # interrupted before it was recorded
        return False
    changed = read_recipe(kept).differences(experiment.recipe)
    changed = {key: pair for key, pair in changed.items() if not _is_free(key)}
    reached = status.updates, status.epochs or 0
    limits = [_limit(experiment.recipe.get(key)) for key in _LIMITS]
    grows = any(_grows(*changed[key]) for key in _LIMITS if key in changed)
    if grows and all(map(lt, reached, limits)):
        return False  # the training goes on, or refuses
    harmless = {*_LIMITS} if all(map(le, reached, limits)) else set()
    for key in sorted(changed.keys() - harmless):
        before, now = map(spell, changed[key])
        raise UserError(
            f"{experiment.run}: was trained with {key}={before}, which is now {now}; choose "
            "another checkpoint.save_dir"
        )
    if record.outputs(training) != known["outputs"]:
        raise UserError(
            f"{experiment.trained}: is not the file that this run's training left; put that back, "
            "or evaluate this one by itself, or choose another checkpoint.save_dir"
        )
    return True


def _is_free(key: str) -> bool:
    """Return True for a setting that may differ in a finished run."""
    group, _, name = key.partition(".")
    return group in _FREE_GROUPS or name in ANYWHERE or key.startswith(_FREE)


def _limit(value: object) -> float:
    """Return a limit of updates or epochs; fairseq has none if it is not positive."""
    return float(value) if isinstance(value, int | float) and value > 0 else math.inf


def _grows(before: object, now: object) -> bool:
    return _limit(now) > _limit(before)


def _train(
    experiment: Experiment,
    training: Step,
    job: RecipeJob,
    record: Record,
    go: Callable[[], int] | None,
) -> int:
    """Train by ``go`` and record what is read; return the exit code.

    None in place of ``go`` means that the training is finished. By now the corpus is prepared; one
    that has changed since the training began is refused.
    """
    train.check_data(job)
    now, known = record.of(training), record.steps.get("train")
    if known is not None and read_status(experiment.run) is not None:
        _refuse_other_data(experiment, known, now)
    if go is None:
        return _say_done()
    with removed_if_refused(experiment.run, (TRAIN_LOG, RECIPE_FILE, RECORD)) as remove:
        record.add(training.name, {**now, "outputs": {}})
        code = go()
        if code == REFUSED and read_status(experiment.run) is None:
            remove()
    if not code:
        record.add(training.name, record.of(training))
    return code


def _refuse_other_data(experiment: Experiment, known: Mapping, now: Mapping) -> None:
    before = known.get("inputs") or {}
    changed = sorted(name for name in before if before[name] != now["inputs"].get(name))
    if changed:
        raise UserError(
            f"{experiment.data}: was prepared anew since {experiment.run} was trained on it "
            f"({changed[0]} differs); choose another checkpoint.save_dir, or remove the run"
        )


def _free_memory() -> None:
    """Free what a training in this process has left, for the processes of the evaluation."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
