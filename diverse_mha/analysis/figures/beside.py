"""Heat maps of two models beside each other, and of what differs between them."""

import matplotlib
import numpy as np

from diverse_mha.analysis.figures.heat_maps import (
    COLUMNS,
    MEASURES,
    draw_pairs,
    empty_maps,
    label_heads,
    pairs_by_layer,
    scale_end,
)
from diverse_mha.analysis.figures.style import (
    STYLE,
    Plot,
    difference_limit,
    side_bar,
)
from diverse_mha.analysis.names import COMPONENT_TITLES


def beside_maps(first: dict, second: dict, measure: str) -> list[Plot]:
    """Draw two models above each other, and their difference.

    Args:
        first: of ``diverse_mha.analysis.run.analyze``.
        second: the same of another model, which the first is taken from.
        measure: a key of ``MEASURES`` that was measured of both.

    Returns:
        A figure for every component that has the same heads and layers in both, and several
        where it has more layers than fit in a row.
    """
    title, label, caption, colours = MEASURES[measure]
    limit, plots = scale_end([first, second], measure), []
    for component in first["components"]:
        layers, others = (pairs_by_layer(r, component, measure) for r in (first, second))
        heads = [r["components"].get(component, {}).get("heads") for r in (first, second)]
        if not layers or layers.keys() != others.keys() or heads[0] != heads[1] or heads[0] < 2:
            continue
        numbers = list(layers)
        for start in range(0, len(numbers), COLUMNS):
            chosen = numbers[start : start + COLUMNS]
            rows = [[layers[n] for n in chosen], [others[n] for n in chosen]]
            parted = len(numbers) > COLUMNS
            of = f", layers {chosen[0]} to {chosen[-1]}" if parted else ""
            named = COMPONENT_TITLES.get(component, component)
            plots.append(
                Plot(
                    f"{measure}-{component}-beside" + (f"-{chosen[0]}" if parted else ""),
                    f"{title}, {named}: {first['name']}, {second['name']} and the difference{of}",
                    f"{caption} Last row: {second['name']} minus {first['name']}. Head 3 of one "
                    "model need not be head 3 of the other, unless one was trained from the "
                    "other: compare the patterns and the means, not single cells.",
                    _beside_figure(
                        chosen, rows, (first["name"], second["name"]), limit, label, colours
                    ),
                )
            )
    return plots


def _beside_figure(
    numbers: list[str],
    rows: list[list[np.ndarray]],
    names: tuple[str, str],
    limit: float,
    label: str,
    colours: str,
):
    differences = [after - before for before, after in zip(*rows, strict=True)]
    ends = difference_limit(float(np.abs(x).max()) for x in differences)
    with matplotlib.rc_context(STYLE):
        figure, axes = empty_maps(3, len(numbers))
        lines = (
            (names[0], rows[0], (0, limit), colours, ".2f"),
            (names[1], rows[1], (0, limit), colours, ".2f"),
            ("difference", differences, (-ends, ends), "PuOr", "+.2f"),
        )
        images = []
        for row, (name, line, limits, shades, form) in enumerate(lines):
            for column, pairs in enumerate(line):
                axis = axes[row, column]
                images.append(draw_pairs(axis, pairs, limits, shades))
                i, j = np.triu_indices(len(pairs), 1)
                mean = f"mean {pairs[i, j].mean():{form}}"
                axis.set_title(f"layer {numbers[column]}, {mean}", fontsize=8)
                label_heads(axis, name, column, below=row == 2)
        side_bar(figure, images[0], axes[:2], label)
        side_bar(figure, images[-1], axes[2:], "difference")
    return figure
