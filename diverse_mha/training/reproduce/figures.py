"""The papers' figures: what they need is measured run by run, then drawn by ``draw``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.training.reproduce import steps
from diverse_mha.training.reproduce.experiments import Figure
from diverse_mha.training.reproduce.fill import Choices
from diverse_mha.training.reproduce.measures import MEASURES
from diverse_mha.training.reproduce.plan import Run
from diverse_mha.training.reproduce.runner import RowError, Runner
from diverse_mha.training.reproduce.terminal import say


@dataclass(frozen=True)
class Kind:
    """What a kind of figure is drawn from.

    Attributes:
        heads: The options of ``diverse-mha analyze`` it needs of every run, or empty.
        checkpoints: Whether it reads the checkpoints themselves.
    """

    heads: Mapping[str, str] = field(default_factory=dict)
    checkpoints: bool = False


#: By a figure's ``kind``; the same measurements as the tables', which are made once.
KINDS = {
    "tsne": Kind(checkpoints=True),
    "heat_maps": Kind(MEASURES["jsd"].heads),
    "coefficients": Kind(MEASURES["svcca"].heads),
    "coefficients_against": Kind(MEASURES["against.encoder"].heads),
    "accuracy_by_length": Kind(),
}


def runs_of_figure(figure: Figure, choices: Choices) -> list[Run]:
    """Name the runs of a figure's first seed, each once; a figure shows one."""
    runs = [run for _, run in _curves(figure, choices)]
    if figure.against is not None:
        runs.append(choices.against(figure.against, figure, choices.seeds[0]))
    return list(dict.fromkeys(runs))


def measured_for(
    figure: Figure, choices: Choices
) -> list[tuple[Run, Mapping[str, str], Run | None]]:
    """Name what has to be measured on heads, as ``fill.measured`` does for a table."""
    options, other = KINDS[figure.kind].heads, None
    if figure.against is not None:
        other = choices.against(figure.against, figure, choices.seeds[0])
    return [(run, options, other) for _, run in _curves(figure, choices)] if options else []


def draw(
    figure: Figure, choices: Choices, found: Mapping[Run, dict], runner: Runner, output: Path
) -> bool:
    """Measure and draw a figure from the runs that were found.

    Args:
        figure: The figure.
        choices: Scale and seeds.
        found: By run, its result; runs that failed are missing.
        runner: Measures heads and draws.
        output: The folder of the pictures.

    Returns:
        Whether every curve is there.
    """
    kind = KINDS[figure.kind]
    complete, curves = True, []
    other = None
    if figure.against is not None:
        other = choices.against(figure.against, figure, choices.seeds[0])
    try:
        for label, run in _curves(figure, choices):
            if run not in found or (other is not None and other not in found):
                complete = False
                continue
            curve = {"label": label, "folder": str(run.folder(runner.place.out))}
            curve["checkpoint"] = str(runner.checkpoint(run))
            if kind.heads:
                curve["heads"] = str(runner.heads(run, kind.heads, other))
            curves.append(curve)
        if not curves:
            return False
        first = _curves(figure, choices)[0][1]
        spec = {
            "kind": figure.kind,
            "title": f"{figure.paper}, {figure.name}: {figure.title}",
            "scale": choices.scale,
            "data": str(steps.data_folder(first, runner.place)),
            "curves": curves,
            "panels": [[title, list(labels)] for title, labels in figure.panels],
            "notes": list(figure.notes),
        }
        runner.draw(spec, output)
    except (RowError, UserError) as error:
        say(f"      {figure.name}: FAILED: {error}")
        return False
    pictures = sorted(path.name for path in output.glob("*.svg"))
    print(f"written: {output}: {', '.join(pictures)}\n", flush=True)
    return complete


def _curves(figure: Figure, choices: Choices) -> list[tuple[str, Run]]:
    seed = choices.seeds[0]
    return [(label, choices.run(e, figure, seed)) for label, e in figure.curves]
