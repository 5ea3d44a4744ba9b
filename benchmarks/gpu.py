"""Everything that a GPU has to show, by one command: ``bash scripts/check-gpu.sh``.

A job (``gpu_jobs.py``) is a process of its own, so that nothing it does harms the next; its result
is in the report before the next one starts, and the same command goes on with what is missing.
``--device cpu`` runs all of it, in miniature, where there is no GPU.
"""

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.arguments import find_device
from benchmarks.gpu_jobs import PARTS, Job, jobs_for
from benchmarks.gpu_report import format_report
from benchmarks.memory import TOO_LARGE
from benchmarks.report import describe_machine
from diverse_mha.common.arguments import OneLineParser, called
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json, write_json, write_text
from diverse_mha.common.options import parse_names
from diverse_mha.common.places import ROOT
from diverse_mha.common.processes import Command, end, ended_in_order, import_path, sole_use

# A job may have that much, if its part has it, before others of the part are thought of.
LEAST_SECONDS = 180
GRACE_SECONDS = 20  # for a job to put away what it has, once it is told to stop
_PR_SET_PDEATHSIG = 1  # of prctl(2) on Linux
TOLD = 4000  # characters of the end of a failed job's output that are kept
#: What a job says that has no corpus and gets none (data-prep/files.sh).
NO_DATA = "cannot download"
#: What a job says of parts of ours that it had to do without: it did, but not what it was to show.
FALLBACKS = ("torch.compile", "torch._dynamo hit", "is not used", "without compiled code")


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = OneLineParser(
        prog=called("check-gpu"),
        description="Check results and speed on a GPU: whether results are the CPU's, whether "
        "trainings resume, how fast they are beside fairseq, and a study as far as the time goes. "
        "Writes report.md and report.json. Give the command again to go on. The exit code is 1 if "
        "something failed.",
        epilog="example:\n  diverse-mha check-gpu --minutes 60",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=60,
        metavar="N",
        help="minutes to take at most (default: 60)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/check-gpu"), metavar="FOLDER",
        help="where the report goes (default: runs/check-gpu)",
    )  # fmt: skip
    parser.add_argument(
        "--parts", metavar="NAMES", help=f"comma list (default: all): {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER",
        help="prepared corpora, for Multi30k (default: data; a rehearsal makes its own)",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="cuda", help="cuda, or cpu for a small rehearsal (cuda)"
    )
    return parser


class Check:
    """The state of a check, in ``report.json`` of its folder ``out``."""

    def __init__(self, out: Path, device: str, data: Path | None = None):
        self.out, self.device = out, device
        machine = describe_machine(torch.device(device), torch.get_num_threads())
        self.jobs = jobs_for(device, out, data)
        path = out / "report.json"
        self.state = {"machine": machine, "minutes": 0.0, "jobs": {}}
        if path.exists():
            self.state = read_json(path, "remove it")
            try:
                before, *_ = (self.state[key] for key in ("machine", "minutes", "jobs"))
                device, gpu = before["device"], before["gpu"]
            except (LookupError, TypeError, AttributeError):
                raise UserError(
                    f"{path}: is no report of this command; name another folder"
                ) from None
            if (device, gpu) != (machine["device"], machine["gpu"]):
                raise UserError(
                    f"--out {out}: holds a report of another device ({gpu or device}); "
                    "name another folder"
                )
            self.state["machine"] = machine  # a row has the versions that it is of

    def run(self, minutes: float, say: Callable[[str], None], parts: Sequence[str] = ()) -> None:
        """Do what is missing (of some parts), then again what runs out of time or failed before."""
        begun = time.monotonic()
        end, spent = begun + 60 * minutes, self.state["minutes"]
        before = {key: row["status"] for key, row in self.state["jobs"].items()}

        def is_open(key: str, job: Job) -> bool:
            return job.always or before.get(key, "out of time") in ("out of time", "no data")

        def is_worth_another_try(key: str, job: Job) -> bool:
            now = {name: row["status"] for name, row in self.state["jobs"].items()}
            # What tells of other jobs has told too early of one that goes on.
            again = job.always and "out of time" in now.values()
            return now.get(key) == "out of time" or before.get(key) == "failed" or again

        for wanted in (is_open, is_worth_another_try):
            todo = {
                part: sorted(  # what was never tried comes before what the time did not suffice for
                    (job for job in jobs if wanted(f"{part}: {job.name}", job)),
                    key=lambda job, part=part: before.get(f"{part}: {job.name}") == "out of time",
                )
                for part, jobs in self.jobs.items()
                if not parts or part in parts
            }
            shares = {part: PARTS[part][1] for part, jobs in todo.items() if jobs}
            while shares:
                part, now = next(iter(shares)), time.monotonic()
                until = now + (end - now) * shares[part] / sum(shares.values())
                del shares[part]
                for place, job in enumerate(todo[part]):
                    left = until - time.monotonic()
                    if left < 1:
                        break
                    # No job takes what several others wait for.
                    limit = min(left, max(LEAST_SECONDS, 3 * left / (len(todo[part]) - place)))
                    if self._is_in_vain(f"{part}: {job.name}", job, limit):
                        continue
                    say(f"{part}: {job.name} ({limit:.0f} s at most)")
                    self._keep(f"{part}: {job.name}", self._do(job, limit))
                    self.state["minutes"] = spent + (time.monotonic() - begun) / 60
                    self.write()
        self.write()

    def _is_in_vain(self, key: str, job: Job, limit: float) -> bool:
        """Whether a job ran out of time before and would again: it may have no more of it now."""
        row = self.state["jobs"].get(key, {"status": "not tried"})
        # What goes on where it stopped may have less, but has to start and to stop once more.
        return row["status"] == "out of time" and limit <= (
            GRACE_SECONDS if job.goes_on else row["seconds"]
        )

    def _keep(self, key: str, row: dict) -> None:
        """Put a row into the report, unless it says less than the one that is there."""
        before = self.state["jobs"].get(key, row)
        if row["status"] != "out of time" or before["status"] in ("out of time", "no data"):
            self.state["jobs"][key] = row | {"versions": self.state["machine"]["versions"]}

    def _do(self, job: Job, limit: float) -> dict:
        """Run a job and return its row of the report."""
        with tempfile.TemporaryDirectory() as scratch:
            output, log = Path(scratch, "result"), Path(scratch, "log")
            option = {"tests": "--junitxml", "json": "--output"}.get(job.result)
            command = [sys.executable, *job.command, *([option, str(output)] if option else [])]
            begun = time.monotonic()
            code = self._call(command, log, limit)
            said = log.read_text(errors="replace")
            row = {"seconds": round(time.monotonic() - begun, 1), "status": "done", "result": None}
            if output.exists() and output.stat().st_size:
                row["result"] = _read(output, job)
        if code is None:
            tests = (row["result"] or {}).get("tests", ())
            found = any(test["outcome"] in ("failure", "error") for test in tests)
            row["status"] = "failed" if found else "out of time"
        elif code and not job.always:
            signs = {"too large": TOO_LARGE, "no data": NO_DATA}
            row["status"] = next((key for key, sign in signs.items() if sign in said), "failed")
            if row["status"] == "no data":
                said = next(line for line in said.splitlines() if NO_DATA in line)
        elif job.result == "json":
            lines = said.splitlines()
            row["fallbacks"] = [x for x in lines if any(sign in x for sign in FALLBACKS)]
        if code != 0 or job.result == "text":
            row["said"] = said.replace(str(ROOT) + "/", "").replace(str(self.out), "OUT")[-TOLD:]
        return row

    def _call(self, command: list[str], log: Path, limit: float) -> int | None:
        """Run a command and return its exit code, None if it had to be stopped."""
        environment = os.environ | import_path() | {"DIVERSE_MHA_TEST_DEVICE": self.device}
        with log.open("wb") as output:
            process = Command.start(
                command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT,
                preexec_fn=_heed_interrupts,
            )  # fmt: skip
        until = time.monotonic() + limit
        try:
            while not process.ended() and time.monotonic() < until:
                time.sleep(0.02)
            return process.code
        finally:  # also when the user interrupts: nothing is left behind
            # pytest and the study put away what they have when they are interrupted.
            end([process], grace=GRACE_SECONDS, gently=signal.SIGINT)

    def write(self) -> None:
        """Write ``report.json`` and ``report.md``."""
        write_json(self.out / "report.json", self.state)
        write_text(self.out / "report.md", self.report())

    def report(self) -> str:
        """Lay everything out as Markdown."""
        parts = [(part, PARTS[part][0], [j.name for j in jobs]) for part, jobs in self.jobs.items()]
        return format_report(self.state, parts)

    def failed(self) -> bool:
        """Whether a job failed; one that time, memory or data did not suffice for has not."""
        return any(row["status"] == "failed" for row in self.state["jobs"].values())


def _heed_interrupts() -> None:
    # A shell's background commands ignore them, and hand that on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Where the check itself is killed, nothing of it goes on beside what is measured next.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _read(path: Path, job: Job) -> dict | None:
    """Read what a job leaves; None if it was killed while it wrote."""
    try:
        return _read_tests(path) if job.result == "tests" else read_json(path, "remove it")
    except (xml.etree.ElementTree.ParseError, UserError):
        return None


def _read_tests(path: Path) -> dict:
    """Read a file of pytest's: what each test measured, what failed and why."""
    document = xml.etree.ElementTree.parse(path)
    tests = []
    for case in document.iter("testcase"):
        if case.get("name") is None:  # pytest was told to stop in the midst of this one
            continue
        outcome, why = "passed", None
        for kind in ("skipped", "failure", "error"):
            found = case.find(kind)
            if found is not None:
                outcome, why = kind, " ".join((found.get("message") or "").split())[:300]
        measured = {p.get("name"): p.get("value") for p in case.iter("property")}
        tests.append(
            {"name": case.get("name"), "outcome": outcome, "why": why, "measured": measured}
        )
    return {"tests": tests}


def main(arguments: Sequence[str]) -> int:
    """Check the device, print the report, and return the exit code."""
    args = build_parser().parse_args(arguments)
    if not 0 < args.minutes < float("inf"):
        raise UserError(f"--minutes {args.minutes:g}: must be more than 0")
    device = find_device(args.device).type
    parts = parse_names("--parts", args.parts, tuple(PARTS))
    # What ends this ends the job too, as an interrupt does.
    with ended_in_order(), sole_use(args.out, option="--out"):
        check = Check(args.out.absolute(), device, args.data and args.data.absolute())
        check.run(args.minutes, lambda text: print(text, file=sys.stderr, flush=True), parts)
    print(check.report())
    return int(check.failed())
