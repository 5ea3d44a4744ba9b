"""Runs: skip what is done, go on with what was interrupted, keep results."""

import contextlib
import hashlib
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json, write_json, write_text
from diverse_mha.common.machine import IMITATED_BFLOAT16, computes_in_bfloat16, cores
from diverse_mha.common.options import split_list
from diverse_mha.common.processes import Command, import_path, sole_use
from diverse_mha.evaluation.averaging import newest_checkpoints
from diverse_mha.training.compose import lookup
from diverse_mha.training.log import TRAIN_LOG, Progress, finished
from experiments import results, steps
from experiments.measures import MEASURES
from experiments.plan import Need, Run
from experiments.process import (
    Waiting,
    import_everything,
    last_line,
    side_by_side,
    start_forked,
    start_logged,
)
from experiments.results import GPUS, LOG, RESULT, THREADS, visible_gpus
from experiments.steps import Place, Step, usable
from experiments.terminal import can_replace, failure_told, say

DATA_MARK = "data.sha256"  # in a run's folder: what it was trained on


@dataclass
class Runner:
    """Carries out runs, each on as many GPUs as can share the batches of an update."""

    place: Place
    fork: bool = False  # modules run in forks of this process, which saves their imports
    gpus: int | None = None  # to use at most; None: all there are
    jobs: int = 1  # runs at a time; several share the cores, and the GPUs, evenly
    collect: bool = False  # train and measure nothing, and give the results that are there
    _heads: dict[Path, dict | None] = field(default_factory=dict, init=False)  # once read

    @property
    def on_cpu(self) -> bool:
        """Whether GPUs are left alone."""
        return self.fork or self.gpus == 0

    def run_all(self, runs: Sequence[Run]) -> dict[Run, dict]:
        """Carry out runs in order, each once, and print one line about each.

        Returns:
            By run, its result; a run that failed is not in it.
        """
        distinct = list(dict.fromkeys(runs))
        if self.collect:
            found = {}
            for run in distinct:
                with failure_told(f"{run.name}: "):
                    if (result := self._finished(run)) is not None:
                        found[run] = result
            say(f"{len(found)} of {len(distinct)} runs are finished")
            return found
        waiting = [r for r in distinct if not (r.folder(self.place.out) / RESULT).is_file()]
        if self.fork and waiting:
            import_everything()
        if any(self._imitates_bfloat16(run) for run in waiting):
            say(f"warning: {IMITATED_BFLOAT16}; --no-bf16 trains in float32")
        found = {}
        heads = [f"[{n}/{len(distinct)}] {run.name}: " for n, run in enumerate(distinct, start=1)]
        tasks = [partial(self._run, r, h, found) for r, h in zip(distinct, heads, strict=True)]
        side_by_side(tasks, self.jobs)
        return {run: found[run] for run in distinct if run in found}

    def measure(self, needs: Sequence[Need]) -> None:
        """Measure the heads of finished runs, unless that is done, and say which fail.

        Where results are only collected nothing is measured, and what is there counts.
        """
        if self.collect:
            return
        by_file = {steps.heads_file(need, self.place): need for need in needs}
        waiting = [need for need in by_file.values() if not self.is_measured(need)]
        side_by_side([partial(self._measure, need) for need in waiting], self.jobs)

    def is_measured(self, need: Need) -> bool:
        """Tell whether what :meth:`measure` writes is there, and newer than the checkpoints.

        Copies of both may have any times, so that it need not be newer to be collected.
        """
        output = steps.heads_file(need, self.place)
        if self.collect:
            return output.is_file()
        checkpoints = [steps.checkpoint(run, self.place) for run in need.runs]
        newest = max((path.stat().st_mtime for path in checkpoints if path.is_file()), default=0)
        return output.is_file() and output.stat().st_mtime >= newest

    def heads(self, need: Need) -> dict | None:
        """Read what :meth:`measure` wrote; None, and a line, where that failed or is damaged."""
        file = steps.heads_file(need, self.place)
        if file not in self._heads and self.is_measured(need):
            self._heads[file] = None
            with failure_told(f"      {need.run.name}: "):
                self._heads[file] = read_json(file, "delete it and give the command again")
        return self._heads.get(file)

    def _run(self, run: Run, head: str, found: dict[Run, dict], slot: int) -> Iterator[Waiting]:
        """Carry out a run, and add its result to those found."""
        with failure_told(head):
            result = self._finished(run)
            if result is not None:
                say(head + f"{summary(result)} (already done)")
            else:
                with sole_use(run.folder(self.place.out)):
                    result = yield from self._carry_out(run, head, self._share(slot))
            found[run] = result

    def _finished(self, run: Run) -> dict | None:
        """Return the result of a run that is done; None of one that is not.

        Raises:
            UserError: if the result is damaged, or is not of the data that are there now.
        """
        folder = run.folder(self.place.out)
        result = results.read(folder / RESULT)
        if result is not None and steps.data_folder(run, self.place).is_dir():
            self._check_data(run, folder)
        return result

    def _carry_out(
        self, run: Run, head: str, share: dict[str, str]
    ) -> Generator[Waiting, None, dict]:
        folder = run.folder(self.place.out)
        yield from self._prepare(run, head, share)
        write_text(folder / DATA_MARK, self._check_data(run, folder))
        seconds, commands = defaultdict(float), []
        place = replace(self.place, gpus=self._gpus(run, share))
        trained = finished(folder / TRAIN_LOG)
        averaged = trained and steps.checkpoint(run, place).is_file()  # its own may be removed
        done = {"train": trained, "average": averaged}
        for step in steps.carry_out(run, place):
            commands.append(step.shell())
            if done.get(step.name):
                continue
            start = time.monotonic()
            used = yield from self._step(run, step, folder / LOG, head, share)
            if step.name != "train":  # which may have had other starts
                seconds[step.name] += time.monotonic() - start
                seconds["processor"] += used
        result = results.collect(run, folder, seconds, commands, share, place.gpus)
        write_json(folder / RESULT, result)
        self._tidy(run, folder)
        taken = dict(result["seconds"])
        processor = taken.pop("processor")
        say(
            head + f"{summary(result)}, {sum(taken.values()):.0f} s "
            f"({processor:.0f} s of processor time)"
        )
        return result

    def _share(self, slot: int) -> dict[str, str]:
        """Return what keeps commands to one of ``jobs`` shares of the machine: environment."""
        if self.jobs == 1:
            return {}
        threads = 1 if self.fork else max(1, cores() // self.jobs)
        share = {THREADS: os.environ.get(THREADS, str(threads))}
        devices = [] if self.on_cpu else visible_gpus()[: self.gpus]
        if devices:
            share[GPUS] = ",".join(devices[slot :: self.jobs] or [devices[slot % len(devices)]])
        return share

    def _gpus(self, run: Run, share: Mapping[str, str]) -> int:
        if self.on_cpu:
            return 0
        mine = split_list(share[GPUS]) if GPUS in share else visible_gpus()[: self.gpus]
        return usable(run.batches, len(mine))

    def _imitates_bfloat16(self, run: Run) -> bool:
        return (
            lookup(run.composed, "common.bf16") is True
            and computes_in_bfloat16() is False
            and self._gpus(run, {}) == 0
        )

    def _prepare(self, run: Run, head: str, share: dict[str, str]) -> Iterator[Waiting]:
        logs = self.place.out / run.scale / "data"
        with contextlib.ExitStack() as held:
            while True:  # one corpus at a time: some are made of another
                try:
                    held.enter_context(sole_use(logs))
                    break
                except UserError:
                    yield Waiting(None, head, "waiting for the corpus ...")
            if not steps.data_folder(run, self.place).is_dir():
                log = logs / f"{run.recipe.folder.partition('/')[0]}.log"
                yield from self._step(run, steps.prepare(run, self.place), log, head, share)

    def _check_data(self, run: Run, folder: Path) -> str:
        """Refuse data other than those that a training was started on; return their mark.

        The key of a run leaves out where its data are, and so what they are. A folder without a
        mark, as of the published runs, is not checked.
        """
        data = steps.data_folder(run, self.place)
        mark, now = folder / DATA_MARK, data_mark(data)
        if mark.is_file() and mark.read_text(encoding="utf-8") != now:
            raise UserError(
                f"{folder}: begun on other data than {data} now holds; give --data with its own, "
                "or move it away"
            )
        return now

    def _tidy(self, run: Run, folder: Path) -> None:
        """Remove the checkpoints of an average; at the smoke scale all but the one that counts."""
        checkpoints = []
        if run.scale == "smoke":
            checkpoints = folder.glob("*.pt")
        elif run.recipe.average:
            with contextlib.suppress(UserError):  # an earlier start has removed them
                checkpoints = newest_checkpoints(folder, run.recipe.average, "update")
        for path in checkpoints:
            if path != steps.checkpoint(run, self.place):
                path.unlink()

    def _step(
        self, run: Run, step: Step, log: Path, head: str, share: dict[str, str]
    ) -> Generator[Waiting, None, float]:
        """Carry out a step, say how far it is, and return its processor time in seconds."""
        begun = looked = said = time.monotonic()
        path = run.folder(self.place.out) / TRAIN_LOG
        written = path.stat().st_size if path.is_file() else 0
        progress = Progress(path, run.updates, run.epochs) if step.name == "train" else None
        tenth, words = 0, f"{step.name} ..."
        command = None
        try:
            for command in self._execute(step, log, share):
                now = time.monotonic()
                if now > looked + 0.5:
                    looked, words, done = now, f"{step.name}, {now - begun:.0f} s", None
                    if progress is not None:
                        done, words = progress.look(now)
                    # Where no line can replace another, not too many: ten a run, one a minute.
                    if done and not can_replace() and int(10 * done) > tenth and now - said >= 60:
                        say(head + words)
                        tenth, said = int(10 * done), now
                yield Waiting(command, head, words)
        finally:  # also where it failed or was interrupted, which ended it
            if progress is not None and command is not None:
                seconds = time.monotonic() - begun
                machine = results.hardware(share, self._gpus(run, share))
                results.note_cost(path.parent, command.seconds, seconds, written, machine)
        return command.seconds

    def _measure(self, need: Need, slot: int) -> Iterator[Waiting]:
        share = self._share(slot)
        place = replace(self.place, gpus=self._gpus(need.run, share))
        log, head = need.run.folder(place.out) / "heads.log", f"      {need.run.name}: "
        with failure_told(head):
            yield from self._step(need.run, steps.analyze(need, place), log, head, share)

    def _execute(self, step: Step, log: Path, share: Mapping[str, str]) -> Iterator[Command]:
        """Start a step's command, and yield it until it has ended.

        Raises:
            UserError: if it failed, with the last words of its log.
        """
        environment = {"DIVERSE_MHA_PYTHON": sys.executable, **import_path(), **share}
        if self.fork and step.module:
            command = start_forked(step.module, step.arguments, log, environment)
        else:
            command = start_logged(step.words(sys.executable), log, environment)
        yield command
        while not command.ended():
            yield command
        if command.code:
            said = last_line(log).removeprefix("error: ")
            number = command.code - 128
            by_signal = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
            raise UserError(
                f"{step.name} ended with exit code {command.code}{by_signal}: {said[:300]}; "
                f"log: {log}"
            )


def data_mark(data: Path) -> str:
    """Hash the dictionaries of a data folder and the sizes of its files."""
    files = sorted(path for path in data.rglob("*") if path.is_file())
    sizes = [(str(p.relative_to(data)), p.stat().st_size) for p in files if p.suffix != ".json"]
    mark = hashlib.sha256(repr(sizes).encode())
    for path in files:
        if path.name.startswith("dict"):
            mark.update(path.read_bytes())
    return mark.hexdigest()


def summary(result: Mapping) -> str:
    """Say a run's score in a few words."""
    for name, words in (
        ("accuracy", "accuracy {:.2f} %"),
        ("perplexity", "test perplexity {:.2f}"),
        ("bleu", "BLEU {:.2f}, sacreBLEU {:.2f}"),
    ):
        score = MEASURES[name].read(result)
        if score is not None:
            return words.format(score, MEASURES["sacrebleu"].read(result))
    return "finished"
