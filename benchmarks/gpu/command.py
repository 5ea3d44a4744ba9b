"""``scripts/check-gpu.sh``: do the jobs in turn, each in a process of its own, and report."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import find_device
from benchmarks.gpu import findings
from benchmarks.gpu.plan import JOBS, MINUTES
from benchmarks.gpu.report import CUT, ENDED, faults, format_report
from diverse_mha.common.arguments import OneLineParser, between, called
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_text
from diverse_mha.common.options import parse_names
from diverse_mha.common.places import ROOT
from diverse_mha.common.processes import Command, end, ended_in_order, import_path, sole_use

LEAST_SECONDS = 10  # a job is not begun with less


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    jobs = "\n".join(f"  {name:13} {limit:4} s  {text}" for name, (text, limit, _) in JOBS.items())
    parser = OneLineParser(
        prog=called("check-gpu"),
        description="Check results and speed on a GPU, most important first. Every finding is "
        "written to a file at once, and a report has them on one page. Give the command again to "
        "go on: jobs that ended are skipped. The exit code is 1 if something failed.",
        epilog=f"jobs:\n{jobs}\n\nexample:\n  diverse-mha check-gpu --minutes 9",
    )
    add = parser.add_argument
    text = f"minutes to take at most; a job gets its share ({MINUTES})"
    add("--minutes", type=between(0.1, 600), default=MINUTES, metavar="N", help=text)
    text = "where findings-DEVICE.jsonl, report-DEVICE.md and logs go (runs/check-gpu)"
    add("--output", type=Path, default=Path("runs/check-gpu"), metavar="FOLDER", help=text)
    add("--device", default="cuda", help="cuda, or cpu for a rehearsal in small shapes (cuda)")
    add("--only", metavar="JOBS", help="comma list of jobs; they are repeated if they ended")
    text = "binarised corpus to train on (data/multi30k/bin; if missing, the demo corpus)"
    add("--data", type=Path, default=Path("data/multi30k/bin"), metavar="FOLDER", help=text)
    text = "the authors' fairseq/models/coda_transformer.py, to measure their model too"
    add("--coda", type=Path, metavar="FILE", help=text)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Do what is missing, write the report, and return the exit code."""
    args = build_parser().parse_args(arguments)
    args.device, only = find_device(args.device).type, parse_names("--only", args.only, (*JOBS,))
    if args.coda and not args.coda.is_file():
        raise UserError(f"--coda {args.coda}: no such file; give the authors' coda_transformer.py")
    folder = args.output.absolute()
    with ended_in_order(), sole_use(folder, option="--output"):
        file, report = folder / f"findings-{args.device}.jsonl", folder / f"report-{args.device}.md"
        begun = [row["job"] for row in findings.read(file)]
        ended = [row["job"] for row in findings.read(file) if row["what"] == ENDED]
        names = only or [name for name in JOBS if name not in ended]
        names = sorted(names, key=begun.__contains__)  # what time did not suffice for comes last
        try:
            _do(names, args, file, report)
        finally:
            rows = findings.read(file)
            write_text(report, format_report(rows))
    print(report.read_text())
    return int(bool(faults(rows)))


def _do(names: list[str], args: argparse.Namespace, file: Path, report: Path) -> None:
    """Do jobs until the time is over, the report anew after each."""
    begun = time.monotonic()
    for number, name in enumerate(names, 1):
        passed = time.monotonic() - begun
        text, seconds, _ = JOBS[name]
        # Fewer minutes leave the last ones out, rather than all of them unfinished.
        share = seconds * max(1, args.minutes / MINUTES) * (2 if args.device == "cpu" else 1)
        limit = min(60 * args.minutes - passed, share)
        if limit < LEAST_SECONDS:
            print(f"no time for {', '.join(names[number - 1 :])}; repeat to go on", file=sys.stderr)
            return
        clock = f"{passed:.0f} s gone, {60 * args.minutes - passed:.0f} left"
        said = f"[{number}/{len(names)}] {name}: {text} ({limit:.0f} s at most; {clock})"
        print(said, file=sys.stderr, flush=True)
        _run(name, limit, args, file)
        write_text(report, format_report(findings.read(file)))


def _run(name: str, limit: float, args: argparse.Namespace, file: Path) -> None:
    """Run a job in a process of its own and write down how it ended."""
    begun, log = time.monotonic(), file.with_name(f"{name}-{args.device}.log")
    words = [name, args.device, args.data.absolute(), args.coda.absolute() if args.coda else ""]
    told = {findings.FILE: str(file), findings.JOB: name}
    told["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asking CUDA would forbid forks
    with log.open("wb") as output:
        command = [sys.executable, "-m", "benchmarks.gpu.plan", *map(str, words)]
        options = {
            "cwd": ROOT,
            "env": os.environ | import_path() | told,
            "stdout": output,
            "stderr": subprocess.STDOUT,
        }
        process = Command(command, **options)
        try:
            while not process.ended() and time.monotonic() - begun < limit:
                time.sleep(0.05)
            code = process.code
        finally:  # also when the user interrupts
            end([process], grace=3, gently=signal.SIGINT)
    more = {"seconds": round(time.monotonic() - begun, 1), "code": code or 0}
    if code:
        more["said"] = log.read_text(errors="replace")[-500:]
    findings.append(file, name, CUT if code is None else ENDED, **more)
