"""The steps of a recipe's experiment, from the corpus to the scores, as commands.

``diverse-mha run`` shows them and carries them out (``training/run.py``).
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from diverse_mha.common.errors import UserError, by_script, called
from diverse_mha.common.files import ROOT
from diverse_mha.common.processes import import_path
from diverse_mha.corpora.contents import STAMP
from diverse_mha.corpora.prepared import NOTE, preparation
from diverse_mha.recipes.recipe import Recipe
from diverse_mha.recipes.steps import KINDS, Pipeline
from diverse_mha.training.steps import Step


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
        return self.run / self.pipeline.trained

    @property
    def model(self) -> Path:
        """The checkpoint to evaluate."""
        return self.run / self.pipeline.model

    @property
    def command(self) -> str:
        """The command that evaluates the kind of model."""
        return KINDS[self.pipeline.kind].command

    def preparation(self) -> Step | None:
        """Return the step that prepares the corpus; None for a user's own."""
        pipeline, own = self.pipeline, "task.data" in self.recipe.given
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
        return Step("prepare", command, carry_out=lambda: call(command))

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
        for name in KINDS[pipeline.kind].results:
            result = self.run / f"{name}.json"
            settings = self.options()
            settings += ["--subset", name] if pipeline.kind == "language_model" else []
            words = [str(self.model), self.data, *settings, "--output", str(result)]
            steps.append(
                self._step(self.command, words, settings, partial(self._evaluated, name), result)
            )
        return steps

    def _evaluated(self, name: str) -> dict[str, Path]:
        """Return the files that the evaluation of a split or of several reads."""
        split = name if self.pipeline.kind == "translation" else None
        return {"model": self.model, **_test_files(self.data, split)}

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
            lambda: call(ours),
        )  # fmt: skip

    def options(self) -> list[str]:
        """Return the options of the evaluation."""
        recipe, words = self.recipe, []
        target = recipe.get("task.target_lang")
        if target and self.pipeline.kind == "translation":
            words += ["--target-lang", str(target)]
        words += self.pipeline.options
        words += ["--cpu"] if recipe.get("common.cpu") else []
        words += ["--user-dir", recipe.plugin] if recipe.plugin else []
        return words

    def check_average(self) -> None:
        """Raise an error if the training would not keep the checkpoints that are averaged.

        To be called once fairseq's configuration has been checked.
        """
        count, recipe = self.pipeline.average, self.recipe
        if not count:
            return
        if self.pipeline.average_by == "update":
            saves = int(recipe.get("checkpoint.save_interval_updates", 0)) > 0
            keeps, setting = "checkpoint.keep_interval_updates", "save_interval_updates=N"
        else:
            saves = not recipe.get("checkpoint.no_epoch_checkpoints")
            keeps, setting = "checkpoint.keep_last_epochs", "no_epoch_checkpoints=false"
        cure = f"checkpoint.{setting} {keeps}={count}"
        kept = int(recipe.get(keeps, 0))  # fairseq keeps all if it is not positive
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
        splits = () if pipeline.kind == "classifier" else KINDS[pipeline.kind].results
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


def _training_files(data: str) -> dict[str, Path]:
    """Return the files that a training reads, by their names below the data folders."""
    return {
        name: path
        for name, path in _files_of(data)
        if path.name != NOTE and not any(part.startswith("test") for part in name.split("/"))
    }


def _test_files(data: str, references: str | None) -> dict[str, Path]:
    """Return the files that an evaluation reads: all but the training set's.

    ``references`` is the split whose texts beside the data folder are read, too; None: none.
    """
    texts = Path(data.split(os.pathsep)[0]).absolute().parent
    found = {name: path for name, path in _files_of(data) if not path.name.startswith("train")}
    for folder in ("raw", "tok") if references else ():
        for path in sorted((texts / folder).glob(f"{references}.*")):
            found[f"{folder}/{path.name}"] = path
    return found


def _files_of(data: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of data folders that a command of ours reads, and their names."""
    for number, folder in enumerate(map(Path, data.split(os.pathsep))):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".log" and path.name != STAMP:
                yield f"{number or ''}{path.relative_to(folder)}", path


def _command(command: str, words: Sequence[str]) -> list[str]:
    """Return one of our commands as this user types it: a script, or ``diverse-mha``."""
    if by_script(command):
        return ["bash", _in_clone(f"scripts/{command}.sh"), *words]
    return ["diverse-mha", command, *words]


def _in_clone(file: str) -> str:
    """Return the path of a script, relative in the clone's own folder."""
    return file if Path.cwd() == ROOT else str(ROOT / file)


def call(words: Sequence[str]) -> int:
    """Run a command with this copy of the package; return its exit code, as in a shell."""
    environment = os.environ | import_path() | {"DIVERSE_MHA_PYTHON": sys.executable}
    code = subprocess.run(words, env=environment).returncode
    return code if code >= 0 else 128 - code
