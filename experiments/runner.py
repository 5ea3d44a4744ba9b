"""Carries out runs: skips finished ones, resumes interrupted ones, and writes results."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, STDOUT

import torch

from diverse_mha.common.errors import UserError, describe_os_error
from diverse_mha.common.files import ROOT, read_json, write_json
from diverse_mha.common.locks import sole_use
from diverse_mha.common.machine import cores
from diverse_mha.common.processes import Command, end, import_path, stoppable
from diverse_mha.evaluation.average import newest_checkpoints
from experiments import runs
from experiments.numbers import RESULT, collect, read, summary
from experiments.runs import Need, Place, Run, Step

LOG = "log.txt"  # the commands and all their output
#: A task: yields each command that it waits for, or None to be resumed a moment later.
Task = Iterator[Command | None]


def side_by_side(tasks: Iterable[Task], jobs: int) -> None:
    """Carry out tasks in order, at most ``jobs`` in parallel.

    A signal or an unexpected error ends all commands.
    """
    waiting, running = iter(tasks), {}
    with stoppable() as check:
        try:
            while True:
                for task, command in list(running.items()):
                    if command is None or command.ended():
                        _advance(task, running)
                while len(running) < jobs and (task := next(waiting, None)) is not None:
                    _advance(task, running)
                if not running:
                    return
                check()
                time.sleep(0.02)
        finally:
            end([command for command in running.values() if command is not None])
            for task in running:
                task.close()  # releases its locks


def _advance(task: Task, running: dict[Task, Command | None]) -> None:
    command = running.pop(task, None)
    with contextlib.suppress(StopIteration):
        command = next(task)
        running[task] = command


def start_logged(step: Step, log: Path, jobs: int = 1) -> Command:
    """Start a command in the project's folder, with its output appended to a log."""
    environment = os.environ | {"DIVERSE_MHA_PYTHON": sys.executable} | import_path()
    if jobs > 1:  # each command gets its share of the cores
        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores() // jobs)))
    program, *words = step.words
    words = [sys.executable if program == "python" else program, *words]
    with log.open("ab") as output:
        output.write(f"\n$ {' '.join(words)}\n".encode())
        output.flush()
        return Command(
            words, cwd=ROOT, env=environment, stdin=DEVNULL, stdout=output, stderr=STDOUT
        )


def check_ended(step: Step, command: Command, log: Path) -> None:
    """If the command failed, raise an error with the log's last error message, or last line."""
    if not command.code:
        return
    last = ("\n" + log.read_text(encoding="utf-8", errors="replace")).rpartition("\n$ ")[2]
    lines = [line.strip() for line in last.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    number = command.code - 128
    by_signal = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
    text = (errors or lines or [""])[-1][:300]
    raise UserError(f"{step.name} ended with exit code {command.code}{by_signal}: {text}; "
                    f"log: {log}")  # fmt: skip


def check_model(run: Run, place: Place) -> None:
    """If a finished run's checkpoint is missing, raise an error."""
    if not run.model(place).is_file():
        raise UserError(
            f"{run.model(place)}: is missing (published runs have no checkpoints); rename the "
            "folder, and give the command again to train the model"
        )


def say(text: str) -> None:
    """Print a line and flush the output."""
    print(text, flush=True)


@contextlib.contextmanager
def failure_told(head: str) -> Iterator[None]:
    """Context manager: print a failure in one line that begins with ``head``, and go on."""
    try:
        yield
    except UserError as error:
        say(f"{head}FAILED: {error}")
    except OSError as error:
        say(f"{head}FAILED: {describe_os_error(error)}")


@dataclass
class Runner:
    """Carries out runs, and measures their heads."""

    place: Place
    jobs: int = 1  # number of runs in parallel
    collect: bool = False  # True: train and measure nothing; return existing results
    start: Callable[[Step, Path, int], Command] = start_logged
    queued: int = field(default=0, init=False)  # number of runs that wait or run in a job queue
    unreadable: int = field(default=0, init=False)  # number of runs with a damaged result
    _heads: dict[Path, dict | None] = field(default_factory=dict, init=False)  # cache

    def run_all(self, wanted: Sequence[Run]) -> dict[Run, dict]:
        """Carry out missing runs, each once, and return the results of those that succeed."""
        distinct, found, missing = list(dict.fromkeys(wanted)), {}, {}
        for number, run in enumerate(distinct, start=1):
            head = f"[{number}/{len(distinct)}] {run.name}: "
            with failure_told(head):
                if (result := self.result(run)) is None:
                    missing[run] = head
                else:
                    found[run] = result
                    say(f"{head}{summary(result)} (already done)")
        self.unreadable += len(distinct) - len(found) - len(missing)
        if self.collect:
            say(f"{len(found)} of {len(distinct)} runs are finished")
        else:
            self._obtain(missing, found)
        return {run: found[run] for run in distinct if run in found}

    def _obtain(self, missing: Mapping[Run, str], found: dict[Run, dict]) -> None:
        """Carry out the runs in ``missing`` (run -> prefix of its output lines); fill ``found``."""
        side_by_side((self._run(run, head, found) for run, head in missing.items()), self.jobs)

    def measure(self, needs: Sequence[Need]) -> None:
        """Measure the heads of finished runs; skip measured ones, and all with ``collect``."""
        if not self.collect:
            by_file = {need.file(self.place): need for need in needs}
            waiting = [need for need in by_file.values() if self._measured(need) is None]
            tasks = (
                self._measure(need, f"[{number}/{len(waiting)}]")
                for number, need in enumerate(waiting, start=1)
            )
            side_by_side(tasks, self.jobs)

    def _measured(self, need: Need) -> Path | None:
        """Return the file with a measurement, not older than the models unless ``collect``."""
        checkpoints = [] if self.collect else [run.model(self.place) for run in need.runs]
        newest = max((path.stat().st_mtime for path in checkpoints if path.is_file()), default=0)
        outputs = (file for file in need.files(self.place) if file.is_file())
        return next((file for file in outputs if file.stat().st_mtime >= newest), None)

    def heads(self, need: Need) -> dict | None:
        """Return the output of :meth:`measure`; None if it is missing, outdated or damaged."""
        file = self._measured(need)
        if file is not None and file not in self._heads:
            self._heads[file] = None
            with failure_told(f"      {need.run.name}: "):
                self._heads[file] = read_json(file, "delete it and run the command again")
        return None if file is None else self._heads[file]

    def result(self, run: Run) -> dict | None:
        """Return the result of a finished run, else None."""
        path = run.folder(self.place.out) / RESULT
        result = read(path)
        if result is not None and not (isinstance(result, dict) and "scores" in result):
            raise UserError(f"{path}: has no scores; delete it and run again")
        return result

    def _run(self, run: Run, head: str, found: dict[Run, dict]) -> Task:
        with failure_told(head):
            folder = run.folder(self.place.out)
            # Refuses what this machine cannot train, before the corpus is prepared.
            step = self.step(run, self._place(run))
            say(f"{head}started; log: {folder / LOG}")
            with sole_use(folder):
                yield from self._prepare(run)
                # Another process may have finished the run meanwhile.
                found[run] = self.result(run) or (yield from self._carry_out(run, folder, step))
            seconds = sum(found[run]["seconds"].values())
            say(f"{head}{summary(found[run])}, {seconds:.0f} s")

    def step(self, run: Run, place: Place) -> Step:
        """Return the command that carries out a run."""
        return runs.carry_out(run, place)

    def _carry_out(self, run: Run, folder: Path, step: Step) -> Iterator:
        begun = time.monotonic()
        yield from self._execute(step, folder / LOG)
        seconds = time.monotonic() - begun
        result = collect(run, folder, seconds, step.shell(), self._place(run).gpus)
        write_json(folder / RESULT, result)
        self._tidy(run, folder)
        return result

    def _place(self, run: Run) -> Place:
        return replace(self.place, gpus=run.gpus(torch.cuda.device_count()))

    def _prepare(self, run: Run) -> Task:
        """Prepare a run's corpus; only one at a time, because some are made from others."""
        logs = self.place.out / run.scale / "data"
        with contextlib.ExitStack() as held:
            while True:
                try:
                    held.enter_context(sole_use(logs))
                    break
                except UserError:
                    yield None
            if not run.data(self.place).is_dir():
                log = logs / f"{run.corpus.partition('/')[0]}.log"
                yield from self._execute(runs.prepare(run, self.place), log)

    def _tidy(self, run: Run, folder: Path) -> None:
        """Remove the checkpoints that were averaged."""
        pipeline = run.pipeline
        if pipeline.average:
            with contextlib.suppress(UserError):  # checkpoints removed by an earlier start
                for path in newest_checkpoints(folder, pipeline.average, pipeline.average_by):
                    path.unlink()

    def _measure(self, need: Need, number: str) -> Task:
        log = need.run.folder(self.place.out) / "heads.log"
        with failure_told(f"      {need.run.name}: "):
            for run in need.runs:
                check_model(run, self.place)
            step = runs.analyze(need, self._place(need.run))
            say(f"      measuring heads {number}; log: {log}")
            yield from self._execute(step, log)

    def _execute(self, step: Step, log: Path) -> Task:
        command = self.start(step, log, self.jobs)
        yield command
        check_ended(step, command, log)
