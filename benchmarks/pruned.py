"""Measures size, peak memory and tokens per second of checkpoints, such as pruned models.

``python -m benchmarks.pruned DATA CHECKPOINT... [--rounds N]``: the checkpoints take turns to score
and translate the same batches. Times are processor time; ratios are to the first checkpoint.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import torch
from fairseq.dataclass.configs import GenerationConfig

from benchmarks.memory import peak_memory
from benchmarks.report import MIB, ratio
from benchmarks.rounds import run_rounds, summarise
from diverse_mha.common.errors import run_cli
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.evaluation.models import Loaded, open_models
from diverse_mha.evaluation.search import BeamSearch

CPU = torch.device("cpu")
STEPS = 20  # length of every translation, so that all models do the same work
BEAM = SimpleNamespace(
    generation=GenerationConfig(beam=5, min_len=STEPS, max_len_a=0, max_len_b=STEPS)
)


def score(loaded: Loaded, batch: dict) -> None:
    """Score a batch with teacher forcing."""
    with torch.no_grad():
        loaded.model(**batch["net_input"])


def translate(loaded: Loaded, batch: dict) -> None:
    """Translate a batch by beam search."""
    list(BeamSearch(loaded, BEAM, fast=False).best([batch]))  # builds the search, too


def load_and_translate(path: str, data: str, subset: str) -> None:
    """Load a model and translate its largest batch, for the peak memory."""
    loaded = open_models(path, data, cpu=True, heads=True)
    batches = loaded.batches(subset, max_tokens=1500)
    translate(loaded, max(batches, key=lambda batch: batch["ntokens"]))


def processor_time(step, batch: dict) -> float:
    """Return the seconds of processor time of a step."""
    start = time.process_time()
    step(batch)
    return time.process_time() - start


def _speed(summary: dict, tokens: list[int]) -> str:
    speed = median(n / s for n, s in zip(tokens, summary["seconds"], strict=True))
    return f"{speed:,.0f}, {ratio(summary)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pruned", allow_abbrev=False)
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--subset", default="test")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    models = {path: open_models(path, args.data, cpu=True, heads=True) for path in args.checkpoints}
    first = args.checkpoints[0]
    batches = list(models[first].batches(args.subset, max_tokens=1500))
    rounds = [batches[n % len(batches)] for n in range(args.rounds + 1)]
    summaries = {}
    tokens = {
        score: [batch["ntokens"] for batch in rounds[1:]],
        translate: [batch["nsentences"] * STEPS for batch in rounds[1:]],
    }
    for work in tokens:
        steps = {path: partial(work, model) for path, model in models.items()}
        summaries[work] = summarise(run_rounds(steps, rounds, 1, processor_time), first)
    lines = []
    for path, loaded in models.items():
        task = load_and_translate, path, args.data, args.subset
        memory = median(peak_memory(*task, device=CPU, threads=1) for _ in range(3))
        parameters = sum(p.numel() for p in loaded.model.parameters())
        sizes = f"{Path(path).stat().st_size / 1e6:.1f}", f"{parameters / 1e6:.2f}"
        speeds = [_speed(summaries[work][path], words) for work, words in tokens.items()]
        lines.append((path, *sizes, f"{memory / MIB:.0f}", *speeds))
    headings = ("checkpoint", "MB", "parameters, M", "peak memory, MiB", "scoring", "translating")
    title = "Size, and tokens per second of processor time with the ratio to the first (95 %)"
    print(to_text(Layout(title, headings, tuple(lines), ())))
    return 0


if __name__ == "__main__":
    run_cli(main)
