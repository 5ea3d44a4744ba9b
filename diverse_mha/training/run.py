"""``diverse-mha run``: a recipe's whole experiment, from the corpus to the score.

Each step is a command that a user could type. It is shown, and skipped if its record in the run's
folder says that it has made its outputs from these very inputs.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from diverse_mha.common.errors import OneLineParser, UserError, add_number, called, run_cli
from diverse_mha.common.files import ROOT, USER_DIR
from diverse_mha.common.processes import import_path
from diverse_mha.common.status import read_status
from diverse_mha.corpora.prepared import preparation
from diverse_mha.fairseq_fixes.save_folder import removed_if_refused
from diverse_mha.recipes.recipe import Recipe, read_recipe
from diverse_mha.recipes.steps import Pipeline, read_pipeline
from diverse_mha.training import train
from diverse_mha.training.read_log import TRAIN_LOG
from diverse_mha.training.score import print_score
from diverse_mha.training.steps import RECORD, Record, Step
from diverse_mha.training.train import Job
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
differ from the recipe's; checkpoint.save_dir=FOLDER names another. It keeps the composed recipe in
recipe.yaml, which this command takes, too.

examples:
  {run} multi30k_small method=hsic
  {run} wmt14_en_de_google method=coda size=big
"""
#: Settings that may differ in a finished run: of places and speed, of the steps after it, and of
#: its length, which trains on.
_OF_PLACES = re.compile(
    r"checkpoint\.|task\.data$|common\.(user_dir|cpu$|log_|tensorboard)|dataset\.num_workers|"
    r"distributed_training\.|generation\.|eval_lm\.|scoring\."
)
_OF_LENGTH = re.compile(r"optimization\.max_(update|epoch)$|lr_scheduler\.")
#: Kind of model -> evaluation command, and names of its results, the test set's last.
_EVALUATIONS = {
    "translation": ("evaluate", ["test"]),
    "language_model": ("evaluate-lm", ["valid", "test"]),
    "classifier": ("evaluate-classifier", ["accuracy"]),
}


@dataclass
class Experiment:
    """A recipe with the options of the command line."""

    named: str  # the recipe as the user named it
    recipe: Recipe
    pipeline: Pipeline
    processes: int | None = None
    source: Path | None = None  # --from
    data_option: Path | None = None  # --data
    words: Sequence[str] = ()  # key=value

    @property
    def run(self) -> Path:
        """The run's folder."""
        return Path(str(self.recipe.get("checkpoint.save_dir")))

    @property
    def data(self) -> str:
        """The data folder, or several joined by ':'."""
        data = self.recipe.get("task.data")
        if data in (None, "???"):
            raise UserError(f"{self.recipe.path}: has no task.data; add task.data=FOLDER")
        return str(data)

    @property
    def trained(self) -> Path:
        """The checkpoint that training leaves for the evaluation."""
        return self.run / ("checkpoint_last.pt" if self.pipeline.average else "checkpoint_best.pt")

    @property
    def model(self) -> Path:
        """The checkpoint to evaluate."""
        return self.run / "averaged.pt" if self.pipeline.average else self.trained

    @property
    def command(self) -> str:
        """The command that evaluates the kind of model."""
        return _EVALUATIONS[self.pipeline.kind][0]

    def preparation(self) -> Step | None:
        """Return the step that prepares the corpus; None for a user's own."""
        pipeline, own = self.pipeline, "task.data" in self.recipe.given and not self.data_option
        if own and self.source is not None:
            raise UserError(
                f"--from {self.source}: has no effect with task.data; use --data instead"
            )
        if own or not pipeline.prepare:
            if self.source is not None:
                raise UserError(
                    f"--from {self.source}: {self.recipe.name} has no scoring.prepare; add one"
                )
            return None
        script, *words = pipeline.prepare
        if not (ROOT / "data-prep" / script).is_file():
            raise UserError(
                f"{self.recipe.name}: scoring.prepare={script}: not in data-prep/; correct it"
            )
        if "--out" not in words:
            words += ["--out", str(Path(self.data).parent)]
        elif self.data_option is not None:
            raise UserError(
                f"--data {self.data_option}: scoring.prepare has --out; change --out there"
            )
        words += ["--from", str(self.source)] if self.source is not None else []
        command = ["bash", _in_clone(f"data-prep/{script}"), *words]
        return Step("prepare", command, carry_out=lambda: _call(command))

    def training(self) -> Step:
        """Return the step that trains; its function is set once the recipe has been checked."""
        words = [] if self.processes is None else ["--processes", str(self.processes)]
        words += ["--config", self.named, *self.words]
        command = _command("train", words)
        files = partial(_training_files, self.data)
        return Step("train", command, (), files, [self.trained])

    def evaluation(self) -> list[Step]:
        """Return the steps after the training: averaging, and an evaluation for each result."""
        pipeline, steps = self.pipeline, []
        if pipeline.average:
            settings = ["--last", str(pipeline.average), "--by", pipeline.average_by]
            words = [str(self.run), *settings, "--output", str(self.model)]
            steps.append(
                self._step("average", words, settings, lambda: {"last": self.trained}, self.model)
            )
        for name in _EVALUATIONS[pipeline.kind][1]:
            result = self.run / f"{name}.json"
            settings = self.options()
            settings += ["--subset", name] if pipeline.kind == "language_model" else []
            words = [str(self.model), self.data, *settings, "--output", str(result)]
            steps.append(self._step(self.command, words, settings, self._evaluated, result))
        return steps

    def _evaluated(self) -> dict[str, Path]:
        """Return the files that an evaluation reads."""
        return {"model": self.model, **_test_files(self.data)}

    @staticmethod
    def _step(
        command: str,
        words: Sequence[str],
        settings: Sequence[str],
        inputs: Callable[[], Mapping[str, Path]],
        output: Path,
    ) -> Step:
        ours = [sys.executable, "-m", "diverse_mha.cli", command, *words]
        return Step(
            f"{command} {output.stem}", _command(command, words), settings, inputs, [output],
            lambda: _call(ours),
        )  # fmt: skip

    def options(self) -> list[str]:
        """Return the options of the evaluation."""
        recipe, words = self.recipe, []
        target = recipe.get("task.target_lang")
        if target and self.pipeline.kind == "translation":
            words += ["--target-lang", str(target)]
        words += self.pipeline.options
        words += ["--cpu"] if recipe.get("common.cpu") else []
        plugin = str(recipe.get("common.user_dir") or "")
        if plugin and Path(plugin).name != USER_DIR.name:
            words += ["--user-dir", plugin]
        return words

    def check_average(self) -> None:
        """Raise an error if the training would not keep the checkpoints that are averaged."""
        count, recipe = self.pipeline.average, self.recipe
        if not count:
            return

        def number(key: str) -> int:
            value = recipe.get(f"checkpoint.{key}", 0)
            if not str(value).lstrip("-").isdecimal():
                raise UserError(f"checkpoint.{key}={value}: must be a whole number")
            return int(value)

        if self.pipeline.average_by == "update":
            saves, keeps = number("save_interval_updates") > 0, "keep_interval_updates"
            cure = f"checkpoint.save_interval_updates=N checkpoint.{keeps}={count}"
        else:
            saves, keeps = not recipe.get("checkpoint.no_epoch_checkpoints"), "keep_last_epochs"
            cure = f"checkpoint.no_epoch_checkpoints=false checkpoint.{keeps}={count}"
        kept = number(keeps)  # fairseq keeps all if it is not positive
        if not (saves and (kept <= 0 or kept >= count)):
            raise UserError(
                f"scoring.average={count}: the training would not keep {count} checkpoints; add "
                f"{cure}"
            )

    def check_corpus(self) -> None:
        """Raise an error if a prepared corpus lacks a split, or tokens, to score afterwards.

        A classifier is scored on the splits that there are.
        """
        folder, pipeline = Path(self.data.split(os.pathsep)[0]), self.pipeline
        splits = () if pipeline.kind == "classifier" else _EVALUATIONS[pipeline.kind][1]
        for split in splits if folder.is_dir() else ():
            if not any(folder.glob(f"{split}.*")):
                raise UserError(
                    f"task.data={self.data}: has no split {split}, which is scored after the "
                    f"training; add one, or train with {called('train')}"
                )
        tokenised = pipeline.score == "compound_split_bleu"
        if tokenised and preparation(folder).tokeniser["tokeniser"] == "none":
            raise UserError(
                f"scoring.score={pipeline.score}: task.data={self.data} was not tokenised; give "
                "scoring.score=sacrebleu"
            )


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
    if options.data is not None:
        if any(word.lstrip("+").startswith("task.data=") for word in settings):
            raise UserError(f"--data {options.data}: contradicts task.data; give one of them")
        settings = [*settings, f"task.data={options.data / 'bin'}"]
    recipe = read_recipe(options.recipe, settings)
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
    experiment.check_average()
    prepare, training = experiment.preparation(), experiment.training()
    later = experiment.evaluation()
    if only_print:
        _check(experiment.recipe)
        for step in filter(None, [prepare, training, *later]):
            step.show()
        return 0
    time = experiment.recipe.get("scoring.time")
    takes = f" (with the recipe unchanged: {time})" if time else ""
    name, run = experiment.recipe.name, experiment.run
    print(f"{name}: corpus {experiment.data}, run {run}{takes}", flush=True)
    record = Record(run)
    finished = _is_finished(experiment, training, record)
    if not finished:
        if prepare is None:
            experiment.check_corpus()
        job = Job([], experiment.processes, experiment.recipe)
        go = train.start(job)  # refuses what cannot be trained, before the preparation
        training = replace(training, carry_out=partial(_train, experiment, job, record, go))
    for step in filter(None, [prepare, training, *later]):
        step.show()
        known = finished if step is training else record.steps.get(step.name) == record.of(step)
        if known:
            print("(already done)", flush=True)
        elif code := step.carry_out():
            return code
        elif step.outputs:
            record.add(step.name, record.of(step))
    print_score(experiment.pipeline.score, later[-1].outputs[0])
    return 0


def _check(recipe: Recipe) -> None:
    from diverse_mha.recipes.configuration import configure

    configure(recipe)


def _is_finished(experiment: Experiment, training: Step, record: Record) -> bool:
    """Return True if the training has ended, of this very recipe, with this very data.

    Raises:
        UserError: if the data or the checkpoint have been changed since.
    """
    status, kept = read_status(experiment.run), experiment.run / RECIPE_FILE
    known = record.steps.get("train")
    if status is None or not status.finished or not kept.is_file():
        return False
    if known is None or not known["outputs"]:  # interrupted before it was recorded
        return False
    changed = read_recipe(kept).differences(experiment.recipe)
    changed = {key: pair for key, pair in changed.items() if not _OF_PLACES.match(key)}
    longer = [key for key in changed if _OF_LENGTH.match(key)]
    if changed and not longer:
        key, (before, now) = next(iter(changed.items()))
        raise UserError(
            f"{experiment.run}: was trained with {key}={before}, which is now {now}; choose "
            "another checkpoint.save_dir"
        )
    if longer:
        return False  # the training goes on, or refuses
    now = record.of(training)
    _refuse_other_data(experiment, known, now)
    if now["outputs"] != known["outputs"]:
        raise UserError(
            f"{experiment.trained}: is not the file that this run's training left; put that back, "
            "or evaluate this one by itself, or choose another checkpoint.save_dir"
        )
    return True


def _train(experiment: Experiment, job: Job, record: Record, go: Callable[[], int]) -> int:
    """Train, after recording what is read; raise an error if it has begun with other data."""
    train.check_data(job)
    now = {**record.of(experiment.training()), "outputs": {}}
    known = record.steps.get("train")
    if known is not None and read_status(experiment.run) is not None:
        _refuse_other_data(experiment, known, now)
    with removed_if_refused(experiment.run, (TRAIN_LOG, RECIPE_FILE, RECORD)):
        record.add("train", now)
        return go()


def _refuse_other_data(experiment: Experiment, known: Mapping, now: Mapping) -> None:
    before = known.get("inputs") or {}
    changed = sorted(name for name in before if before[name] != now["inputs"].get(name))
    if changed:
        raise UserError(
            f"{experiment.data}: was prepared anew since {experiment.run} was trained on it "
            f"({changed[0]} differs); choose another checkpoint.save_dir, or remove the run"
        )


def _training_files(data: str) -> dict[str, Path]:
    """Return the files that a training reads, by their names below the data folders."""
    return {
        name: path
        for name, path in _files_of(data)
        if not any(part.startswith("test") for part in name.split("/"))
    }


def _test_files(data: str) -> dict[str, Path]:
    """Return the files that an evaluation reads: splits but the training's, and references."""
    first = Path(data.split(os.pathsep)[0])
    texts = [
        (f"{folder}/{path.name}", path)
        for folder in ("raw", "tok")
        for path in sorted((first.parent / folder).glob("*"))
    ]
    return {
        name: path
        for name, path in [*_files_of(data), *texts]
        if path.is_file() and not path.name.startswith("train")
    }


def _files_of(data: str) -> Iterable[tuple[str, Path]]:
    for number, folder in enumerate(map(Path, data.split(os.pathsep))):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".log":
                yield f"{number or ''}{path.relative_to(folder)}", path


def _command(command: str, words: Sequence[str]) -> list[str]:
    """Return one of our commands as the user typed this one: a script, or ``diverse-mha``."""
    if os.environ.get("DIVERSE_MHA_SCRIPT") == "run.sh":
        return ["bash", _in_clone(f"scripts/{command}.sh"), *words]
    return ["diverse-mha", command, *words]


def _in_clone(file: str) -> str:
    """Return the path of a script, relative in the clone's own folder."""
    return file if Path.cwd() == ROOT else str(ROOT / file)


def _call(words: Sequence[str]) -> int:
    environment = os.environ | import_path() | {"DIVERSE_MHA_PYTHON": sys.executable}
    code = subprocess.run(words, env=environment).returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
