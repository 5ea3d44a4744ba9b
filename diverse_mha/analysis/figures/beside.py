"""Heat maps of two models beside each other, and of what differs between them."""

import matplotlib
import numpy as np

from diverse_mha.analysis.figures.heat_maps import (
    COLUMNS,
    MEASURES,
    decimals,
    draw_rows,
    empty_maps,
    off_diagonal,
    pairs_by_layer,
    scale_end,
)
from diverse_mha.analysis.figures.style import (
    STYLE,
    Plot,
    difference_limit,
    in_rows,
    name_rows,
    own_scale,
)
from diverse_mha.analysis.names import COMPONENT_TITLES


def beside_maps(first: dict, second: dict, measure: str) -> list[Plot]:
    """Draw two models above each other, and the second minus the first.

    Both are of ``diverse_mha.analysis.run.analyze``; ``measure`` is a key of ``MEASURES`` that was
    measured of both.

    Returns:
        A figure for every component that has the same heads and layers in both, and several
        where it has more layers than fit in a row.
    """
    title, label, caption, colours = MEASURES[measure]
    end, plots = scale_end([first, second], measure), []
    one, two = first["name"], second["name"]
    for component, entry in first["components"].items():
        other = second["components"].get(component)
        if other is None or other["heads"] != entry["heads"] or entry["heads"] < 2:
            continue
        layers, others = pairs_by_layer(entry, measure), pairs_by_layer(other, measure)
        if layers.keys() != others.keys():
            continue
        for numbers, ending, of in in_rows(list(layers), COLUMNS):
            rows = [[layers[n] for n in numbers], [others[n] for n in numbers]]
            *limits, said = own_scale((off_diagonal(x) for row in rows for x in row), end)
            plots.append(
                Plot(
                    f"{measure}-{component}-beside{ending}",
                    f"{title}, {COMPONENT_TITLES[component]}: {one}, {two} and the difference{of}",
                    f"{caption}{said} Last row: {two} minus {one}. Head 3 of one model need not be "
                    "head 3 of the other, unless one was trained from the other: compare the "
                    "patterns and the means, not single cells.",
                    _beside_figure(numbers, rows, (one, two), tuple(limits), label, colours),
                )
            )
    return plots


def _beside_figure(
    numbers: list[str],
    rows: list[list[np.ndarray]],
    names: tuple[str, str],
    limits: tuple[float, float],
    label: str,
    colours: str,
):
    differences = [after - before for before, after in zip(*rows, strict=True)]
    end = difference_limit(float(np.abs(x).max()) for x in differences)
    with matplotlib.rc_context(STYLE):
        figure, axes = empty_maps(3, len(numbers), names)
        both = [("", _titled(numbers, row, ".2f")) for row in rows]
        draw_rows(axes[:2], both, limits, colours, label)
        last = [("", _titled(numbers, differences, f"+.{max(decimals(end), 2)}f"))]
        draw_rows(axes[2:], last, (-end, end), "PuOr", "difference")
        name_rows(axes, (*names, "difference"), 16)
    return figure


def _titled(numbers: list[str], maps: list[np.ndarray], form: str) -> list[tuple[str, np.ndarray]]:
    above = np.triu_indices(len(maps[0]), 1)
    return [
        (f"\nlayer {number}, mean {pairs[above].mean():{form}}", pairs)
        for number, pairs in zip(numbers, maps, strict=True)
    ]
