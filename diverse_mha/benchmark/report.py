"""The result of a benchmark as a Markdown table, and what it was measured on."""

import os
from dataclasses import asdict

import torch

from diverse_mha.benchmark.shapes import SHAPES
from diverse_mha.benchmark.summary import Summary
from diverse_mha.benchmark.variants import PAPER_RATIOS, variants_of
from diverse_mha.common.machine import cores, processor, versions

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


def describe_variant(
    name: str, shape: str, seconds: list[float], summary: Summary, memory: int, parameters: int
) -> dict:
    """Put together everything about one variant, for JSON and for the table.

    Args:
        name: of the variant.
        shape: name of the shape, for the paper's ratio.
        seconds: of every step after the warm-up.
        summary: of these.
        memory: peak in bytes.
        parameters: their number.
    """
    variant, paper = variants_of(SHAPES[shape])[name], PAPER_RATIOS.get((name, shape))
    return {
        **asdict(variant),
        "parameters": parameters,
        "peak_memory_bytes": memory,
        "steps_per_second": summary.steps_per_second,
        **asdict(summary),
        "paper": paper and {**asdict(paper), "ratio": paper.ratio},
        "seconds": seconds,
    }


def where(machine: dict) -> str:
    """Name what computed: the GPU, or the processor and its threads."""
    return machine["gpu"] or f"{machine['processor']}, {machine['threads']} thread(s)"


def format_markdown(result: dict) -> str:
    """Lay out a result as a heading, a table, and the sources of the papers' ratios.

    Args:
        result: what ``measure`` returns, or the same read back from JSON.
    """
    options, machine, shape = result["options"], result["machine"], result["model"]
    head = (
        f"Shape {options['shape']} (C {shape['embed_dim']}, feed-forward "
        f"{shape['ffn_embed_dim']}, {shape['layout']}, "
        f"{shape['heads']} heads, {shape['vocabulary']} words), at most "
        f"{options['batch_tokens']} tokens a batch, mean length {options['mean_length']:g}, "
        f"{options['precision']}{', --compile' if options['compile'] else ''}, {where(machine)}, "
        f"torch {machine['versions']['torch']}; "
        f"{options['rounds']} interleaved rounds after {options['warm_up']} of warm-up."
    )
    columns = (
        "variant",
        "what",
        "s/step (quartiles)",
        "steps/s",
        "ratio to stock (95 %)",
        "the paper's ratio",
        "peak memory, MiB",
        "parameters, M",
    )
    rows = [columns, ["---"] * 2 + ["---:"] * (len(columns) - 2)]
    rows += [_row(name, variant) for name, variant in result["variants"].items()]
    lines = [head, "", *("| " + " | ".join(row) + " |" for row in rows), ""]
    lines.append(
        "Ratio: median over rounds of stock's time / own time, 95 % bootstrap interval; "
        "above 1 = faster than stock."
    )
    for name, variant in result["variants"].items():
        paper = variant["paper"]
        if paper:
            lines.append(
                f"The paper's ratio of {name}: {paper['speed']:.2f} / {paper['baseline']:.2f} "
                f"steps/s on its own machine and baseline ({paper['source']})."
            )
    if machine["load_average"] and not machine["gpu"]:
        free = machine["cores"] - machine["load_average"]
        if free < machine["threads"]:
            lines.append(
                f"Load average {machine['load_average']:.1f} on {machine['cores']} cores at the "
                "start: other programs were running, so the figures are noisy."
            )
    return "\n".join(lines)


def _row(name: str, variant: dict) -> list[str]:
    low, high = variant["ratio_low"], variant["ratio_high"]
    paper = variant["paper"]
    return [
        f"`{name}`",
        variant["text"],
        f"{variant['median_seconds']:.4g} "
        f"({variant['lower_quartile']:.4g}-{variant['upper_quartile']:.4g})",
        f"{variant['steps_per_second']:.3g}",
        f"{variant['ratio']:.3f} ({low:.3f}-{high:.3f})",
        f"{paper['ratio']:.2f}" if paper else "",
        f"{variant['peak_memory_bytes'] / MIB:.0f}",
        f"{variant['parameters'] / 1e6:.1f}",
    ]
