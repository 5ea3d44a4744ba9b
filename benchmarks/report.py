"""The result of a benchmark as a Markdown table, and what it was measured on."""

import os
from collections.abc import Iterable

import torch

from diverse_mha.common.machine import cores, processor, versions
from diverse_mha.common.tables import Layout, to_markdown

MIB = 2**20


def describe_machine(device: torch.device, threads: int) -> dict:
    """Versions, cores and what else bears on speed; the load tells of other programs."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "versions": versions(),
        "processor": processor(),
        "cores": cores(),
        "threads": threads,
        "wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "device": device.type,
        "gpu": gpu,
    }


def where(machine: dict) -> str:
    """Name what computed: the GPU, or the processor and its threads."""
    return machine["gpu"] or f"{machine['processor']}, {machine['threads']} thread(s)"


def ratio(summary: dict) -> str:
    """Write a ratio with its interval."""
    return f"{summary['ratio']:.3f} ({summary['ratio_low']:.3f}-{summary['ratio_high']:.3f})"


def format_table(
    title: str, headings: Iterable[str], rows: Iterable[Iterable[str]], result: dict
) -> str:
    """Lay out the rows of a benchmark as Markdown, and say under them how they were measured.

    The first two columns are of words, the others of numbers, one of which is a ratio.
    """
    options, machine = result["options"], result["machine"]
    notes = [
        f"{options['precision']}, {where(machine)}, torch {machine['versions']['torch']}; "
        f"{options['rounds']} interleaved rounds after {options['warm_up']} of warm-up. Ratio: "
        f"median over rounds of {result['baseline']}'s time / own time, 95 % bootstrap interval; "
        "above 1 = faster."
    ]
    load = None if machine["gpu"] else machine["load_average"]
    if load and machine["cores"] - load < machine["threads"]:
        notes.append(
            f"Load average {load:.1f} on {machine['cores']} cores at the start: other programs "
            "were running, so the figures are noisy."
        )
    lines = tuple(tuple(row) for row in rows)
    return to_markdown(Layout(title, tuple(headings), lines, tuple(notes), names=2)).rstrip()
