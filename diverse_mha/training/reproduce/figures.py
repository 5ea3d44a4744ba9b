"""The papers' figures: what they need is measured run by run, then drawn by ``draw``."""

from collections.abc import Mapping
from pathlib import Path

from diverse_mha.training.reproduce import steps
from diverse_mha.training.reproduce.experiments import Figure
from diverse_mha.training.reproduce.fill import Choices, needs_of
from diverse_mha.training.reproduce.plan import Run
from diverse_mha.training.reproduce.runner import Runner


def draw(
    figure: Figure, choices: Choices, found: Mapping[Run, dict], runner: Runner, output: Path
) -> bool:
    """Draw a figure from the runs that were found and measured.

    Args:
        figure: The figure.
        choices: Scale and seeds.
        found: By run, its result; runs that failed are missing.
        runner: Has measured the heads, and draws.
        output: The folder of the pictures.

    Returns:
        Whether every curve is there.
    """
    curves = []
    needs = needs_of(figure, (), choices)
    for (label, _), need in zip(figure.curves, needs, strict=True):
        if not found.keys() >= set(need.runs) or (need.heads and not runner.is_measured(need)):
            continue
        curve = {"label": label, "folder": str(need.run.folder(runner.place.out))}
        curve["checkpoint"] = str(steps.checkpoint(need.run, runner.place))
        if need.heads:
            curve["heads"] = str(steps.heads_file(need, runner.place))
        curves.append(curve)
    if not curves:
        return False
    if not runner.draw(
        figure,
        figure.kind,
        choices.scale,
        output,
        data=str(steps.data_folder(needs[0].run, runner.place)),
        curves=curves,
        panels=figure.panels,
        notes=figure.notes,
    ):
        return False
    pictures = sorted(path.name for path in output.glob("*.svg"))
    print(f"written: {output}: {', '.join(pictures)}\n", flush=True)
    return len(curves) == len(needs)
