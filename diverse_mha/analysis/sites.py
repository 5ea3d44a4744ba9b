"""The selection of an analysis: components, layers and measures, resolved once to modules."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from diverse_mha.attention.core import COMPONENTS
from diverse_mha.attention.sites import Site
from diverse_mha.common.errors import UserError
from diverse_mha.measures.similarity import THRESHOLD

OwnSite = TypeVar("OwnSite", bound=Site)
# Measure -> head states that it needs.
MEASURES = {
    "cka": ("outputs",),
    "svcca": ("outputs",),
    "jsd": ("weights",),
    "entropy": ("weights",),
    "disagreement": ("values", "weights", "outputs"),
    "importance": (),  # measured in importance.py
    "importance-gradient": (),
}
DEFAULT_MEASURES = ("cka", "svcca", "jsd", "entropy", "disagreement")


class Selection(NamedTuple):
    """Components, layers, measures and split of an analysis."""

    components: tuple[str, ...] | None = None  # None: all
    layers: str | tuple[int, ...] = "all"  # "all", "last", or numbers from 1
    measures: tuple[str, ...] = DEFAULT_MEASURES
    threshold: float = THRESHOLD
    subset: str = "valid"  # name of the split
    max_tokens: int = 4000  # tokens in a batch
    sentences: int = 0  # number of sentences whose attention the report shows
    importance_of: str = "zero"  # what replaces an ablated head's output: "zero" or "mean"

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the head states that the model must return."""
        wanted = {state for measure in self.measures for state in MEASURES[measure]}
        return tuple(sorted(wanted | {"outputs"}))

    def resolve(self, sites: Iterable[OwnSite], name: str = "") -> list[OwnSite]:
        """Return the selected modules of a model, in the order of the tables.

        Args:
            sites: all modules of the model.
            name: name of the model, for messages.

        Raises:
            UserError: the model lacks a selected component or layer.
        """
        depths: dict[str, int] = {}
        for site in sites:
            depths[site.component] = max(depths.get(site.component, 0), site.number)
        for component in self.components or ():
            if component not in depths:
                raise UserError(
                    f"--components {component}: {name} has no such component; it has "
                    f"{', '.join(c for c in COMPONENTS if c in depths)}"
                )
        components = [c for c in COMPONENTS if c in depths and c in (self.components or depths)]
        places = [(c, n) for c in components for n in self._layers_of(depths[c])]
        for component, number in places:
            if number > depths[component]:
                raise UserError(
                    f"--layers {number}: the {component} of {name} has {depths[component]} layers; "
                    f"give numbers up to {depths[component]}"
                )
        found = {(site.component, site.number): site for site in sites}
        return [found[place] for place in places]

    def _layers_of(self, depth: int) -> list[int]:
        if isinstance(self.layers, tuple):
            return list(self.layers)
        return list(range(1, depth + 1)) if self.layers == "all" else [depth]


def components_of(sites: Iterable[Site]) -> list[str]:
    """Return the components of some modules, each once."""
    return list(dict.fromkeys(site.component for site in sites))
