"""Attention modules of a model and the numbers of their heads.

Read by the analysis, and by the adapters through which it sees models of fairseq and of
transformers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from torch import Tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value")
Missing = TypeVar("Missing")
Measure = TypeVar("Measure", bound="DataclassInstance")
Batch = TypeVar("Batch")  # the adapter's own
#: Texts or, for a classifier of pairs, tuples of two.
Sentences = Sequence[str] | Sequence[tuple[str, ...]]


class HeadNumbers(NamedTuple):
    """The heads of a module that are left after pruning."""

    kept: tuple[int, ...]  # numbers of the heads that are left, from 1
    total: int  # number of heads before pruning

    @classmethod
    def unpruned(cls, count: int) -> "HeadNumbers":
        """Return the numbers of a module whose ``count`` heads are all there."""
        return cls(tuple(range(1, count + 1)), count)

    @property
    def pruned(self) -> list[int]:
        """Numbers of the pruned heads."""
        return [n for n in range(1, self.total + 1) if n not in self.kept]

    def spread(self, values: Iterable[Value], missing: Missing) -> list[Value | Missing]:
        """Return the values of the heads that are left, with ``missing`` at pruned heads."""
        by_head = dict(zip(self.kept, values, strict=True))
        return [by_head.get(n, missing) for n in range(1, self.total + 1)]

    def number(self, measure: Measure) -> Measure:
        """Insert None at pruned heads in all lists and matrices of a measure, a dataclass."""
        if not self.pruned:
            return measure
        changed = {}
        for f in fields(measure):
            value = getattr(measure, f.name)
            if isinstance(value, dict):  # pair, such as "1-2" -> value
                pairs = ((*map(int, pair.split("-")), x) for pair, x in value.items())
                value = {f"{self.kept[i - 1]}-{self.kept[j - 1]}": x for i, j, x in pairs}
            elif isinstance(value, list) and isinstance(value[0], list):
                rows = [self.spread(row, None) for row in value]
                value = self.spread(rows, [None] * self.total)
            elif isinstance(value, list):
                value = self.spread(value, None)
            changed[f.name] = value
        return replace(measure, **changed)


class Site(Protocol):
    """An attention module of a model; an adapter may add what it needs to find the module."""

    @property
    def component(self) -> str:
        """The component: encoder, cross or decoder."""
        ...

    @property
    def number(self) -> int:
        """The layer, from 1."""
        ...

    @property
    def numbers(self) -> HeadNumbers:
        """The numbers of the heads that are left after pruning."""
        ...


class Head(NamedTuple):
    """A head of a model."""

    component: str
    layer: int  # from 1
    head: int  # from 1

    def __str__(self) -> str:
        return f"{self.component} {self.layer}.{self.head}"


class Encoded(NamedTuple, Generic[Batch]):
    """A batch of given sentences, and its token ids without padding."""

    batch: Batch
    source: list[Tensor]  # ids that the encoder (of a language model: the decoder) reads
    predicted: list[Tensor] | None  # ids that the decoder predicts; None for an encoder


def heads_in(sites: Iterable[Site]) -> list[Head]:
    """Return the heads of some modules, without those that ``prune --remove`` has removed."""
    return [Head(site.component, site.number, n) for site in sites for n in site.numbers.kept]
