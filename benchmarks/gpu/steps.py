"""Training steps of several variants: on new shapes and on repeated ones, part by part."""

import importlib.util
import warnings
from pathlib import Path
from statistics import fmean

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.batches import batches_for, stand_in_task, to_device
from benchmarks.gpu.findings import part, put
from benchmarks.gpu.plan import Setting
from benchmarks.report import MIB, ratio
from benchmarks.rounds import clock_for, milliseconds, run_rounds, summarise
from benchmarks.shapes import SHAPES
from benchmarks.training import Trainee
from benchmarks.variants import STOCK, VARIANTS, Variant

FUSED = "+fused_adam"  # behind a variant's name: with this optimiser
NAMES = (STOCK, f"{STOCK}{FUSED}", "plain", "coda")
NAMES += tuple(f"{name}{FUSED}" for name in ("plain", "coda", "output", "all-three", "em-1-2"))
OFFICIAL = "the authors' CODA"
NEW, REPEATED = 9, 5  # batches
SMALL = (STOCK, "coda", f"coda{FUSED}")  # in a rehearsal


def bf16(setting: Setting) -> None:
    """Small batches, where launches count, and large ones."""
    _Steps(setting, "bf16", (100, 400) if setting.small else (4096, 16384))


def fp16(setting: Setting) -> None:
    """Loss scaling, and parameters in one tensor."""
    _Steps(setting, "fp16", (100,) if setting.small else (4096,))


class _Steps:
    def __init__(self, setting: Setting, precision: str, sizes: tuple[int, ...]):
        self.device, self.precision, self.trainees = setting.device, precision, {}
        self.on_gpu, self.book = not setting.small, dict(VARIANTS)
        self.shape = SHAPES["base" if self.on_gpu else "tiny"]
        if setting.coda:
            with part("build", OFFICIAL):
                self._add_official(setting.coda)
        count, mean = REPEATED + NEW, self.shape.mean_length
        self.batches = {
            n: [to_device(b, self.device) for b in batches_for(self.shape, count, n, mean, 1)]
            for n in sizes
        }
        for name in [*(NAMES if self.on_gpu else SMALL), *(self.book.keys() - VARIANTS.keys())]:
            with part("build", name):
                self._build(name, sizes[-1])
        for n in sizes:
            title = f"{precision}, at most {n:,} tokens"
            with part(title):
                self._rounds(n, title)
                self._parts(n, title)
        for name in self.trainees:
            with part("waits, launches", name):
                self._waits_and_launches(name)

    def _add_official(self, path: Path) -> None:
        spec = importlib.util.spec_from_file_location("fairseq.models.coda_transformer", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))  # registers the model
        loss = "label_smoothed_cross_entropy"
        self.book[OFFICIAL] = Variant(OFFICIAL, "base", {"model": "coda"}, loss)

    def _build(self, name: str, tokens: int) -> None:
        """Build a variant and take two steps on the largest batch, for the memory."""
        before = torch.cuda.memory_allocated() if self.on_gpu else 0
        torch.cuda.reset_peak_memory_stats() if self.on_gpu else None
        optimizer = "fused_adam" if name.endswith(FUSED) else "adam"
        settings = {"device": self.device, "precision": self.precision, "optimizer": optimizer}
        variant, task = self.book[name.removesuffix(FUSED)], stand_in_task(self.shape.vocabulary)
        trainee = Trainee(variant, self.shape.options(), task, seed=1, **settings)
        outcome = [trainee.step(self.batches[tokens][0]) for _ in range(2)][1]
        peak = (torch.cuda.max_memory_allocated() - before) // MIB if self.on_gpu else None
        put(f"{self.precision}, two steps", name, loss=float(outcome.loss),
            finite=outcome.finite(), peak_MiB=peak)  # fmt: skip
        self.trainees[name] = trainee

    def _rounds(self, tokens: int, title: str) -> None:
        """Interleaved steps: shapes never met before, then the same few over and over."""
        steps = {name: trainee.step for name, trainee in self.trainees.items()}
        batches, rounds = self.batches[tokens], 20 if self.on_gpu else 3
        again = [batches[i % REPEATED] for i in range(REPEATED + rounds)]
        for kind, of, warm_up in (("new", batches[REPEATED:], 0), ("repeated", again, REPEATED)):
            seconds = run_rounds(steps, of, warm_up, clock_for(self.device))
            mean = fmean(int(batch["ntokens"]) for batch in of[warm_up:])
            for name, row in summarise(seconds, STOCK).items():
                put(f"{title}, {kind} shapes", name, ratio_to_stock=ratio(row),
                    median_ms=1e3 * row["median_seconds"], slowest_ms=1e3 * max(row["seconds"]),
                    target_tokens_per_s=round(mean / fmean(row["seconds"])))  # fmt: skip

    def _parts(self, tokens: int, title: str) -> None:
        batch = self.batches[tokens][0]
        for name, trainee in self.trainees.items():

            def forward(trainee=trainee):
                trainee.optimizer.zero_grad()
                return trainee.criterion(trainee.model, batch)[0]

            works = {"forward": forward, "forward+backward": lambda f=forward: f().backward()}
            works["step"] = lambda trainee=trainee: trainee.step(batch)
            times = {key: milliseconds(work, self.device, 6, 1) for key, work in works.items()}
            put(f"{title}: ms on the device, of the host", name, **times)

    def _waits_and_launches(self, name: str) -> None:
        """Count how often the host waits in a step, and what runs on the device how long."""
        step, batch = self.trainees[name].step, next(iter(self.batches.values()))[0]
        if self.on_gpu:
            torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            step(batch)
        if self.on_gpu:
            torch.cuda.set_sync_debug_mode("default")
        # Both activities at once would take seconds to evaluate.
        activity = ProfilerActivity.CUDA if self.on_gpu else ProfilerActivity.CPU
        with profile(activities=[activity]) as p:
            step(batch)
            if self.on_gpu:
                torch.cuda.synchronize()
        kind = DeviceType.CUDA if self.on_gpu else DeviceType.CPU  # not the calls that start them
        rows = [e for e in p.key_averages() if e.device_type == kind]
        cost = {e: (e.self_device_time_total or e.self_cpu_time_total) / 1e3 for e in rows}
        top = [f"{cost[e]:.2f}: {e.count} {e.key[:30]}" for e in sorted(rows, key=cost.get)[:-7:-1]]
        waits = sum("synchronizing" in str(one.message) for one in said)
        put(f"{self.precision}, waits of the host and launches", name, waits=waits,
            launches=sum(e.count for e in rows), ms=sum(cost.values()), longest=top)  # fmt: skip
