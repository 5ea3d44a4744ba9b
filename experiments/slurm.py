"""``diverse-mha reproduce --slurm``: submits the missing runs of a table as an array of Slurm jobs.

``submitit`` submits the array, and resubmits jobs that are preempted or reach their time limit.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json, write_json
from diverse_mha.common.options import split_list
from diverse_mha.common.processes import import_path
from experiments.runner import LOG, Runner, failure_told, say, side_by_side
from experiments.runs import Place, Run

LEAST_MINUTES = 5  # submitit listens for Slurm's signal, 90 s before the end, after its imports
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass
class Job:
    """A Slurm job that carries out one run."""

    run: Run
    place: Place

    def __call__(self) -> None:
        """Carry out or resume the run, which writes its result to a file in its folder."""
        if not Runner(self.place).run_all([self.run]):
            raise SystemExit(1)

    def checkpoint(self):
        """Return the job that submitit submits after a pre-emption: this one, as runs resume."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def read_options(text: str) -> dict[str, int | str]:
    """Parse options of ``sbatch``, with underscores, such as ``partition=gpu,time=2-00:00:00``."""
    pairs = [word.partition("=")[::2] for word in split_list(text)]
    options = {key: int(value) if value.isdecimal() else value for key, value in pairs}
    if not all(key and value for key, value in pairs):
        raise UserError(f"--slurm {text}: write options as partition=gpu,time=2-00:00:00")
    if "time" not in options:
        raise UserError(f"--slurm {text}: has no time limit; add one, as in time=2-00:00:00")
    minutes = _minutes(str(options["time"]))
    if minutes and minutes < LEAST_MINUTES:  # 0 is no limit
        raise UserError(
            f"--slurm time={options['time']}: is so short that a job may end before it can be "
            f"resubmitted; give {LEAST_MINUTES} minutes or more, as in time={LEAST_MINUTES}"
        )
    return options


def _minutes(time: str) -> float | None:
    """Return a time limit of ``sbatch`` in minutes; None for other text, which sbatch reports.

    Forms: minutes[:seconds], hours:minutes:seconds and days-hours[:minutes[:seconds]].
    """
    match = _TIME.fullmatch(time)
    if match is None:
        return None
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is None and len(parts) < 3:
        parts = [0, *parts]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    return (int(days or 0) * 24 + hours) * 60 + minutes + seconds / 60


def queued_jobs() -> dict[str, str]:
    """Return the state of every job in the queue, by its number."""
    words = ["squeue", "--noheader", "--array", "--format=%F_%K %T"]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        raise UserError(
            "--slurm: squeue is not installed here; run the command on a Slurm node"
        ) from None
    if done.returncode:
        raise UserError(f"--slurm: squeue failed: {done.stderr.strip()}; check SLURM_CONF")
    lines = (line.split() for line in done.stdout.splitlines())
    return {number.removesuffix("_N/A"): state for number, state in lines}


def submit(tasks: Sequence[Job], options: Mapping[str, int | str], folder: Path) -> list[str]:
    """Submit jobs as an array; return their job numbers."""
    import submitit

    os.environ |= import_path()  # sbatch passes the environment to the jobs
    executor = submitit.SlurmExecutor(folder=folder / "%j", max_num_timeout=1000)
    try:
        executor.update_parameters(job_name="diverse-mha", **options)
        with executor.batch():
            jobs = [executor.submit(task) for task in tasks]
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--slurm: {reason}; correct the options") from None
    except submitit.core.utils.FailedJobError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(f"--slurm: sbatch failed: {reason}; correct the options") from None
    return [job.job_id for job in jobs]


@dataclass
class SlurmRunner(Runner):
    """Submits missing runs instead of carrying them out; a later call collects finished ones."""

    options: dict[str, int | str] = field(default_factory=dict)
    queue: Callable[[], dict[str, str]] = queued_jobs
    submit: Callable[[list[Job], dict, Path], list[str]] = submit

    def _obtain(self, missing: Mapping[Run, str], found: dict[Run, dict]) -> None:
        """Submit the runs that are not in the queue."""
        if not missing:
            return
        states, folder = self.queue(), self.place.out / next(iter(missing)).scale / "slurm"
        file = folder / "jobs.json"
        jobs = read_json(file, "delete it") if file.is_file() else {}
        queued = [run for run in missing if jobs.get(run.name) in states]
        for run in queued:
            say(f"{missing[run]}{states[jobs[run.name]].lower()}, job {jobs[run.name]}")
        rest = [run for run in missing if run not in queued]
        side_by_side((self._prepared(run, missing[run]) for run in rest), 1)
        if ready := [run for run in rest if run.data(self.place).is_dir()]:
            options = self.options | ({"array_parallelism": self.jobs} if self.jobs > 1 else {})
            tasks = [Job(run, self.place) for run in ready]
            for run, job in zip(ready, self.submit(tasks, options, folder), strict=True):
                jobs[run.name] = job
                log = run.folder(self.place.out) / LOG
                say(f"{missing[run]}submitted, job {job}; log: {log}")
            write_json(file, jobs)
        self.queued += len(queued) + len(ready)

    def _prepared(self, run: Run, head: str) -> Iterator:
        with failure_told(head):
            yield from self._prepare(run)
