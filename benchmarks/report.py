"""Formats the result of a benchmark as a Markdown table, and describes the machine."""

import os

import torch

from diverse_mha.common.machine import cores, processor, versions
from diverse_mha.common.tables import Layout, to_markdown

MIB = 2**20
HEADINGS = (
    *("variant", "what", "s/step (quartiles)", "steps/s", "ratio to stock (95 %)"),
    *("peak memory, MiB", "parameters, M"),
)


def describe_machine(device: torch.device, threads: int) -> dict:
    """Return what affects speed: versions, processor, threads, and the load of other programs."""
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


def ratio(summary: dict) -> str:
    """Format a ratio with its interval."""
    return f"{summary['ratio']:.3f} ({summary['ratio_low']:.3f}-{summary['ratio_high']:.3f})"


def format_markdown(result: dict) -> str:
    """Format a result (of ``measure``, or read from its JSON file) as a table with notes."""
    options, shape, machine = result["options"], result["model"], result["machine"]
    title = (
        f"Training, shape {options['shape']} (C {shape['embed_dim']}, feed-forward "
        f"{shape['ffn_embed_dim']}, {shape['layout']}, {shape['heads']} heads, "
        f"{shape['vocabulary']} words), at most {options['batch_tokens']} tokens per batch, mean "
        f"length {options['mean_length']:g}"
    )
    rows = tuple(
        (
            f"`{name}`",
            row["text"],
            f"{row['median_seconds']:.4g} "
            f"({row['lower_quartile']:.4g}-{row['upper_quartile']:.4g})",
            f"{row['steps_per_second']:.3g}",
            ratio(row),
            f"{row['peak_memory_bytes'] / MIB:.0f}",
            f"{row['parameters'] / 1e6:.1f}",
        )
        for name, row in result["variants"].items()
    )
    where = machine["gpu"] or f"{machine['processor']}, {machine['threads']} thread(s)"
    notes = [
        f"{options['precision']}, {where}, torch {machine['versions']['torch']}; "
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
    return to_markdown(Layout(title, HEADINGS, rows, tuple(notes), names=2)).rstrip()
