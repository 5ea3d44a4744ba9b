"""Runs: skip what is done, go on with what was interrupted, keep results."""

import contextlib
import hashlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from diverse_mha.common.errors import UserError, describe_os_error
from diverse_mha.common.files import write_json, write_text
from diverse_mha.common.machine import cores
from diverse_mha.common.places import ROOT
from diverse_mha.common.processes import sole_use
from diverse_mha.evaluation.averaging import newest_checkpoints
from diverse_mha.training.log import TRAIN_LOG, Progress, finished
from diverse_mha.training.reproduce import results, steps
from diverse_mha.training.reproduce.batches import usable
from diverse_mha.training.reproduce.jobs import side_by_side
from diverse_mha.training.reproduce.measures import MEASURES
from diverse_mha.training.reproduce.plan import Run
from diverse_mha.training.reproduce.process import (
    import_everything,
    last_line,
    run_forked,
    run_logged,
)
from diverse_mha.training.reproduce.results import LOG, RESULT
from diverse_mha.training.reproduce.steps import Place, Step
from diverse_mha.training.reproduce.terminal import can_replace, clear, say


class RowError(Exception):
    """A run failed; the message names the run, the reason and the log."""


@dataclass
class Runner:
    """Carries out runs.

    Attributes:
        place: Where things are.
        fork: Whether modules run in forks of this process, which saves their imports.
        gpus: GPUs to use at most; None: all there are. A run takes as many as can share the
            batches of an update.
        jobs: Runs at a time. Several share the cores, and the GPUs, evenly.
        collect: Whether to train nothing, and give the results that are there.
    """

    place: Place
    fork: bool = False
    gpus: int | None = None
    jobs: int = 1
    collect: bool = False

    def run_all(self, runs: Sequence[Run]) -> dict[Run, dict]:
        """Carry out runs in order, each once, and print one line about each.

        Returns:
            By run, its result; a run that failed is not in it.
        """
        distinct = list(dict.fromkeys(runs))
        if self.collect:
            loaded = {run: results.load(run.folder(self.place.out)) for run in distinct}
            found = {run: result for run, result in loaded.items() if result is not None}
            say(f"{len(found)} of {len(distinct)} runs are finished")
            return found
        if self.fork and any(results.load(run.folder(self.place.out)) is None for run in distinct):
            import_everything()
        heads = [f"[{n}/{len(distinct)}] {run.name}: " for n, run in enumerate(distinct, start=1)]
        found = {}
        waiting = {}
        for run, head in zip(distinct, heads, strict=True):
            try:
                if self.jobs > 1 and results.load(run.folder(self.place.out)) is None:
                    task = partial(self._in_place, run, head)
                    waiting[run] = head.removesuffix(": "), task
                else:
                    found[run] = self._run(run, head)
            except (RowError, UserError) as error:
                say(head + f"FAILED: {error}")
        side_by_side(list(waiting.values()), self.jobs)
        done = {run: results.load(run.folder(self.place.out)) for run in waiting}
        return found | {run: result for run, result in done.items() if result is not None}

    def _in_place(self, run: Run, head: str, slot: int) -> None:
        """Carry out a run in a process of its own, with this slot's share of the machine."""
        try:
            self._share(slot)._run(run, head)
        except RowError as error:
            say(head + f"FAILED: {error}")

    def _share(self, slot: int) -> "Runner":
        """Keep this process and the commands it starts to one of ``jobs`` shares of the machine."""
        threads = 1 if self.fork else max(1, cores() // self.jobs)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        if self.fork or self.gpus == 0:
            return self
        devices = visible_gpus()[: self.gpus]
        if not devices:
            return self
        mine = devices[slot :: self.jobs] or [devices[slot % len(devices)]]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
        return replace(self, gpus=None)  # all that can be seen now

    def heads(self, run: Run, options: Mapping[str, str], against: Run | None = None) -> Path:
        """Measure the heads of a finished run, unless that is done.

        Args:
            run: The run.
            options: Options of ``diverse-mha analyze``.
            against: A run to compare it with, or None.

        Returns:
            The JSON file of ``diverse-mha analyze``, in the run's folder.

        Raises:
            RowError: if it fails.
        """
        output = steps.heads_file(run, self.place, options, against)
        if not self._is_measured(run, options, against):
            say(f"      {run.name}: {output.stem} ...", end=True)
            place = replace(self.place, gpus=self._gpus(run))
            step = steps.analyze(run, place, options, against)
            self._execute(step, run.folder(self.place.out) / "heads.log", None)
            clear()
        return output

    def heads_of_all(self, wanted: Sequence[tuple[Run, Mapping[str, str], Run | None]]) -> None:
        """Measure the heads of several finished runs side by side, given as to :meth:`heads`.

        Those that fail are left out: :meth:`heads` will try again, and say why.
        """
        waiting = [
            (one[0].name, partial(self._heads_in_place, *one))
            for one in wanted
            if self.jobs > 1 and not self._is_measured(*one)
        ]
        side_by_side(waiting, self.jobs)

    def _heads_in_place(
        self, run: Run, options: Mapping[str, str], against: Run | None, slot: int
    ) -> None:
        with contextlib.suppress(RowError, UserError):
            self._share(slot).heads(run, options, against)

    def _is_measured(self, run: Run, options: Mapping[str, str], against: Run | None) -> bool:
        output = steps.heads_file(run, self.place, options, against)
        checkpoints = [self.checkpoint(one) for one in (run, against) if one is not None]
        newest = max((path.stat().st_mtime for path in checkpoints if path.is_file()), default=0)
        return output.is_file() and output.stat().st_mtime >= newest

    def draw(self, spec: Mapping, folder: Path) -> None:
        """Draw the figure of a specification into a folder, which keeps it.

        Raises:
            RowError: if it fails.
        """
        write_json(folder / "figure.json", dict(spec))
        module = "diverse_mha.training.reproduce.draw"
        self._execute(Step("draw", "", module, (str(folder),)), folder / LOG, None)

    def checkpoint(self, run: Run) -> Path:
        """Return the checkpoint of a run that counts."""
        return steps.checkpoint(run, self.place)

    def _run(self, run: Run, head: str) -> dict:
        folder = run.folder(self.place.out)
        done = results.load(folder)
        if done is not None:
            say(head + f"{summary(done)} (already done)")
            return done
        try:
            with sole_use(folder):
                self._prepare(run, head)
                self._check_data(run, folder)
                seconds, commands = {}, []
                processor = _processor_seconds()
                place = replace(self.place, gpus=self._gpus(run))
                for step in [steps.train(run, place), *steps.finish(run, place)]:
                    commands.append(step.shell())
                    if step.name == "train" and finished(folder / TRAIN_LOG):
                        continue
                    say(head + f"{step.name} ...", end=True)
                    start, used = time.monotonic(), _processor_seconds()
                    self._step(run, step, folder / LOG, head)
                    if step.name == "train":
                        results.note_cost(folder, _processor_seconds() - used)
                    taken = time.monotonic() - start
                    seconds[step.name] = seconds.get(step.name, 0.0) + taken
                seconds["processor"] = _processor_seconds() - processor
                result = results.collect(run, folder, seconds, commands)
                write_json(folder / RESULT, result)
                self._tidy(run, folder)
        except UserError as error:
            raise RowError(str(error)) from error
        except OSError as error:
            raise RowError(describe_os_error(error)) from error
        processor = seconds.pop("processor")
        say(
            head + f"{summary(result)}, {sum(seconds.values()):.0f} s "
            f"({processor:.0f} s of processor time)"
        )
        return result

    def _gpus(self, run: Run) -> int:
        if self.fork or self.gpus == 0:
            return 0
        import torch

        wanted = torch.cuda.device_count() if self.gpus is None else self.gpus
        return usable(run.batches, wanted)

    def _prepare(self, run: Run, head: str) -> None:
        logs = self.place.out / run.scale / "data"
        with sole_use(logs, wait=True) if self.jobs > 1 else contextlib.nullcontext():
            if steps.data_folder(run, self.place).is_dir():
                return
            logs.mkdir(parents=True, exist_ok=True)
            say(head + "preparing the corpus ...", end=True)
            step = steps.prepare(run, self.place)
            self._step(run, step, logs / f"{run.recipe.folder.partition('/')[0]}.log", head)

    def _check_data(self, run: Run, folder: Path) -> None:
        """Refuse to go on with a training on data other than those it was started on."""
        data = steps.data_folder(run, self.place)
        mark, now = folder / "data.sha256", data_mark(data)
        if mark.is_file() and mark.read_text(encoding="utf-8") != now:
            raise UserError(f"{folder}: begun on other data than {data} now holds; move it away")
        write_text(mark, now)

    def _tidy(self, run: Run, folder: Path) -> None:
        """Remove the checkpoints of an average; at the smoke scale all but the one that counts."""
        checkpoints = []
        if run.scale == "smoke":
            checkpoints = folder.glob("*.pt")
        elif run.recipe.average:
            checkpoints = newest_checkpoints(folder, run.recipe.average, "update")
        for path in checkpoints:
            if path != self.checkpoint(run):
                path.unlink()

    def _step(self, run: Run, step: Step, log: Path, head: str) -> None:
        begun = time.monotonic()
        path = run.folder(self.place.out) / TRAIN_LOG
        progress = Progress(path, run.updates, run.epochs) if step.name == "train" else None
        tenth, said = 0, begun

        def meanwhile() -> None:
            nonlocal tenth, said
            now = time.monotonic()
            if progress is None:
                say(head + f"{step.name}, {now - begun:.0f} s", end=True)
                return
            share, words = progress.look(now)
            say(head + words, end=True)
            # Where no line can replace another, not too many: at most ten a run, one a minute.
            if not can_replace() and share and int(10 * share) > tenth and now - said >= 60:
                say(head + words)
                tenth, said = int(10 * share), now

        self._execute(step, log, meanwhile)

    def _execute(self, step: Step, log: Path, meanwhile: Callable[[], None] | None) -> None:
        environment = {"DIVERSE_MHA_PYTHON": sys.executable}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        if self.fork and step.module:
            code = run_forked(step.module, step.arguments, log, cwd=ROOT, meanwhile=meanwhile)
        else:
            code = run_logged(
                step.command(), log, cwd=ROOT, environment=environment, meanwhile=meanwhile
            )
        if code:
            said = last_line(log).removeprefix("error: ")
            by_signal = f" ({signal.Signals(code - 128).name})" if code > 128 else ""
            raise RowError(
                f"{step.name} ended with exit code {code}{by_signal}: {said[:300]}; log: {log}"
            )


def visible_gpus() -> list[str]:
    """Name the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    return [str(number) for number in range(torch.cuda.device_count())]


def _processor_seconds() -> float:
    """Processor time of the commands so far: on a busy machine the clock says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    scores = result["scores"]
    if "accuracy" in scores:
        test = [v for k, v in scores["accuracy"]["subsets"].items() if k.startswith("test")]
        right = sum(v["accuracy"] * v["examples"] for v in test)
        return f"accuracy {right / max(1, sum(v['examples'] for v in test)):.2f} %"
    test = scores.get("test", {})
    if "perplexity" in test:
        return f"test perplexity {test['perplexity']:.2f}"
    if "tokenised_bleu" in test:
        return f"BLEU {MEASURES['bleu'].read(result):.2f}, sacreBLEU {test['sacrebleu']:.2f}"
    return "finished"
