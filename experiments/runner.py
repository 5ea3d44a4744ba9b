"""Carries out runs: skips finished ones, resumes interrupted ones, keeps results."""

import contextlib
import math
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json, write_json
from diverse_mha.common.processes import cores, import_path, sole_use
from diverse_mha.evaluation.average import newest_checkpoints
from diverse_mha.training.log import status_of
from experiments import results, steps
from experiments.measures import MEASURES
from experiments.plan import Need, Run
from experiments.process import (
    exit_code,
    failure_told,
    last_line,
    pause,
    say,
    side_by_side,
    start_logged,
)
from experiments.results import LOG, RESULT
from experiments.steps import Environment, Step, usable


@dataclass
class Runner:
    """Carries out runs."""

    place: Environment
    jobs: int = 1  # runs at a time
    collect: bool = False  # train and measure nothing; return existing results
    _heads: dict[Path, dict | None] = field(default_factory=dict, init=False)  # cache

    def run_all(self, runs: Sequence[Run]) -> dict[Run, dict]:
        """Carry out runs in order, each once, and return the results of those that succeed."""
        distinct, found = list(dict.fromkeys(runs)), {}
        if self.collect:
            for run in distinct:
                with failure_told(f"{run.name}: "):
                    if (result := self._result(run)) is not None:
                        found[run] = result
            say(f"{len(found)} of {len(distinct)} runs are finished")
            return found
        heads = [f"[{n}/{len(distinct)}] {run.name}: " for n, run in enumerate(distinct, start=1)]
        tasks = [partial(self._run, r, h, found) for r, h in zip(distinct, heads, strict=True)]
        side_by_side(tasks, self.jobs)
        return {run: found[run] for run in distinct if run in found}

    def measure(self, needs: Sequence[Need]) -> None:
        """Measure the heads of finished runs, unless that is done or results are collected."""
        if self.collect:
            return
        by_file = {steps.heads_file(need, self.place): need for need in needs}
        waiting = [need for need in by_file.values() if not self.is_measured(need)]
        side_by_side([partial(self._measure, need) for need in waiting], self.jobs)

    def is_measured(self, need: Need) -> bool:
        """Return True if the heads are measured and, unless collecting, newer than checkpoints."""
        output = steps.heads_file(need, self.place)
        if self.collect:
            return output.is_file()
        checkpoints = [steps.checkpoint(run, self.place) for run in need.runs]
        newest = max((path.stat().st_mtime for path in checkpoints if path.is_file()), default=0)
        return output.is_file() and output.stat().st_mtime >= newest

    def heads(self, need: Need) -> dict | None:
        """Return what :meth:`measure` wrote; None if it is missing or damaged."""
        file = steps.heads_file(need, self.place)
        if file not in self._heads and self.is_measured(need):
            self._heads[file] = None
            with failure_told(f"      {need.run.name}: "):
                self._heads[file] = read_json(file, "delete it and give the command again")
        return self._heads.get(file)

    def _result(self, run: Run) -> dict | None:
        return results.read(run.folder(self.place.out) / RESULT)

    def _run(self, run: Run, head: str, found: dict[Run, dict]) -> None:
        """Carry out a run and add its result to ``found``."""
        with failure_told(head):
            if (result := self._result(run)) is not None:
                say(head + f"{summary(result)} (already done)")
            else:
                say(f"{head}started; log: {run.folder(self.place.out) / LOG}")
                with sole_use(run.folder(self.place.out)):
                    result = self._carry_out(run)
                say(head + f"{summary(result)}, {sum(result['seconds'].values()):.0f} s")
            found[run] = result

    def _carry_out(self, run: Run) -> dict:
        folder = run.folder(self.place.out)
        self._prepare(run)
        seconds, commands = defaultdict(float), []
        place = replace(self.place, gpus=self._gpus(run))
        trained = status_of(folder).finished
        averaged = trained and steps.checkpoint(run, place).is_file()  # its inputs may be gone
        done = {"train": trained, "average": averaged}
        for step in steps.carry_out(run, place):
            commands.append(step.shell())
            if not done.get(step.name):
                start = time.monotonic()
                self._execute(step, folder / LOG)
                seconds[step.name] += time.monotonic() - start
        result = results.collect(run, folder, seconds, commands, place.gpus)
        write_json(folder / RESULT, result)
        self._tidy(run, folder)
        return result

    def _gpus(self, run: Run) -> int:
        return 0 if run.scale == "smoke" else usable(run.batches, torch.cuda.device_count())

    def _prepare(self, run: Run) -> None:
        logs = self.place.out / run.scale / "data"
        with contextlib.ExitStack() as held:
            while True:  # one corpus at a time: some are made from another
                try:
                    held.enter_context(sole_use(logs))
                    break
                except UserError:
                    pause(0.2)
            if not steps.data_folder(run, self.place).is_dir():
                log = logs / f"{run.corpus.partition('/')[0]}.log"
                self._execute(steps.prepare(run, self.place), log)

    def _tidy(self, run: Run, folder: Path) -> None:
        """Remove the checkpoints of an average."""
        pipeline = run.pipeline
        if pipeline.average:
            with contextlib.suppress(UserError):  # an earlier start has removed them
                for path in newest_checkpoints(folder, pipeline.average, pipeline.average_by):
                    path.unlink()

    def _measure(self, need: Need) -> None:
        place = replace(self.place, gpus=self._gpus(need.run))
        with failure_told(f"      {need.run.name}: "):
            step = steps.analyze(need, place)
            self._execute(step, need.run.folder(place.out) / "heads.log")

    def _execute(self, step: Step, log: Path) -> None:
        """Carry out a step."""
        environment = {"DIVERSE_MHA_PYTHON": sys.executable, **import_path()}
        if self.jobs > 1:  # each command gets its share of the cores
            threads = max(1, cores() // self.jobs)
            environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(threads))
        program, *words = step.words
        program = sys.executable if program == "python" else program
        if code := exit_code(start_logged([program, *words], log, environment)):
            said = last_line(log).removeprefix("error: ")
            number = code - 128
            by_signal = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
            raise UserError(
                f"{step.name} ended with exit code {code}{by_signal}: {said[:300]}; log: {log}"
            )


def summary(result: dict) -> str:
    """Return a run's score in a few words; that of validation for a training alone."""
    if "validation" in result:
        diverged = math.isinf(result["validation"])
        return "diverged" if diverged else f"validation {abs(result['validation']):.4f}"
    for name, words in (
        ("accuracy", "accuracy {:.2f} %"),
        ("perplexity", "test perplexity {:.2f}"),
        ("bleu", "BLEU {:.2f}, sacreBLEU {:.2f}"),
    ):
        score = MEASURES[name].read(result)
        if score is not None:
            return words.format(score, MEASURES["sacrebleu"].read(result))
    return "finished"
