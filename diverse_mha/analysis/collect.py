"""Selects attention modules and accumulates their measures over a split."""

import re
from collections.abc import Container
from typing import NamedTuple

import numpy as np
from torch import Tensor

from diverse_mha.analysis.disagreement import disagreement_result
from diverse_mha.analysis.meters import DEFAULT_MEASURES, MEASURES, ModuleMeter
from diverse_mha.attention import HeadStates
from diverse_mha.common.errors import UserError
from diverse_mha.common.options import split_list
from diverse_mha.measures.similarity import THRESHOLD

COMPONENT_ORDER = ("encoder", "cross", "decoder")
# Further values of a measure in a layer's result, and their suffix in the summary.
KEYS = {
    "jsd": {"mean": "", "per_row": "_per_row"},
    "entropy": {"mean": "", "share_above_0.95": "_share_above_0.95"},
    "svcca": {"mean": "", "top_mean": "_top"},
    "cka": {"mean": "", "unbiased_mean": "_unbiased"},
}


class Selection(NamedTuple):
    """What to measure."""

    components: tuple[str, ...] | None = None  # None: all
    layers: str | tuple[int, ...] = "all"  # "all", "last", or numbers from 1
    measures: tuple[str, ...] = DEFAULT_MEASURES
    threshold: float = THRESHOLD
    subset: str = "valid"  # name of the split
    max_tokens: int = 4000  # in a batch
    sentences: int = 0  # first ones of the split, whose attention to keep
    importance_of: str = "zero"  # what replaces a head's outputs: "zero", or their "mean"

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the head states that the model must return."""
        wanted = {state for measure in self.measures for state in MEASURES[measure]}
        return tuple(sorted(wanted | {"outputs"}))

    def chosen(self, there: Container[str]) -> list[str]:
        """Return the chosen components of the model, in the order of the tables."""
        wanted = self.components or COMPONENT_ORDER
        return [c for c in COMPONENT_ORDER if c in wanted and c in there]

    def numbers(self, depth: int) -> list[int]:
        """Return the chosen layers, from 1, of a component with ``depth`` layers."""
        if self.layers == "all":
            return list(range(1, depth + 1))
        return [depth] if self.layers == "last" else list(self.layers)


def parse_layers(text: str) -> str | tuple[int, ...]:
    """Read ``--layers``."""
    if text in ("all", "last"):
        return text
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise UserError(f"--layers {text}: give all, last, or numbers from 1 such as 1,3")
    return tuple(sorted(set(map(int, split_list(text)))))


def check_selection(selection: Selection, depths: dict[str, int], name: str) -> None:
    """Raise an error for components or layers that the model lacks."""
    for component in selection.components or ():
        if component not in depths:
            raise UserError(
                f"--components {component}: {name} has no such component; it has "
                f"{', '.join(c for c in COMPONENT_ORDER if c in depths)}"
            )
    for component in selection.chosen(depths):
        for number in selection.numbers(depths[component]):
            if number > depths[component]:
                raise UserError(
                    f"--layers {number}: the {component} of {name} has {depths[component]} layers"
                )


class HeadsMeter:
    """Measures of the chosen modules of one model."""

    def __init__(self, selection: Selection):
        self.selection = selection
        self.modules: dict[str, dict[int, ModuleMeter]] = {}

    def update(self, head_states: dict[str, list[HeadStates]]) -> None:
        """Add the head states of a batch."""
        measures, threshold = self.selection.measures, self.selection.threshold
        for component in self.selection.chosen(head_states):
            layers = head_states[component]
            meters = self.modules.setdefault(component, {})
            for number in self.selection.numbers(len(layers)):
                meter = meters.setdefault(number, ModuleMeter(measures, threshold))
                meter.update(layers[number - 1])

    def means(self) -> dict[tuple[str, int], Tensor]:
        """Return every head's mean output, (H, D) float64, by component and layer."""
        return {
            (component, number): meter.moments.mean.view(meter.num_heads, -1)
            for component, meters in self.modules.items()
            for number, meter in meters.items()
        }

    def result(self) -> dict:
        """Return everything, ready for JSON.

        ``{"components": {component: {"heads", "positions", "layers": {"1": {...}}}},
        "disagreement": {component: {...}}, "summary": {measure: {"last", "mean", ...}}}``; the
        innermost dictionaries are those of ``ModuleMeter.result`` and ``disagreement_result``.
        """
        components = {}
        for component, meters in self.modules.items():
            first = next(iter(meters.values()))
            components[component] = {
                "heads": first.num_heads,
                "positions": first.positions,
                "layers": {str(number): meter.result() for number, meter in meters.items()},
            }
        result = {"components": components, "summary": summarise(components)}
        if "disagreement" in self.selection.measures:
            result["disagreement"] = {
                component: disagreement_result(np.stack([m.disagreement() for m in own.values()]))
                for component, own in self.modules.items()
            }
        return result


def summarise(components: dict) -> dict:
    """Average the means over modules.

    Returns:
        By measure, ``last``: mean over the components of their last chosen layers; ``mean``:
        mean over all chosen modules (as Zheng et al. 2021 do for the divergence). With ``KEYS``'
        endings the same of what else a measure has. None where no module has a value.
    """
    summary = {}
    for measure in next(iter(next(iter(components.values()))["layers"].values())):
        summary[measure] = {}
        for key, suffix in KEYS.get(measure, {"mean": ""}).items():
            rows = [
                [(layer[measure] or {}).get(key) for layer in entry["layers"].values()]
                for entry in components.values()
            ]
            summary[measure]["last" + suffix] = mean([row[-1] for row in rows])
            summary[measure]["mean" + suffix] = mean([value for row in rows for value in row])
    return summary


def mean(values: list[float | None]) -> float | None:
    """Return the mean of the values that are not None."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
