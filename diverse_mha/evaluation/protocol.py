"""What the analysis asks of a model: the protocol that an adapter of each library fulfils.

``evaluation/adapter.py`` has the adapter of checkpoints of fairseq and of this package, and
``hub/adapter.py`` that of folders and models of transformers; ``evaluation/opener.py`` opens
either. The analysis itself knows neither library. Batches and sites are the adapter's own; the
analysis only hands them back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from torch import Tensor

from diverse_mha.attention import HeadStates, Wanted
from diverse_mha.attention.sites import Encoded, Head, Sentences, Site

Batch = TypeVar("Batch")  # a batch of the adapter
Yielded = TypeVar("Yielded", covariant=True)
OwnSite = TypeVar("OwnSite", bound=Site)  # an attention module, as the adapter finds it
ChangedSite = TypeVar("ChangedSite", bound=Site, contravariant=True)
#: Changes the head outputs (B, T, H, D) of a module, before they are merged.
Change = Callable[[Tensor], Tensor]


class Batches(Protocol[Yielded]):
    """The batches of a split for one pass; ``len`` counts them."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Yielded]: ...


class Losses(Protocol[ChangedSite]):
    """The losses of a batch in nats: of every sentence, and with changed heads."""

    losses: Tensor  # (B,) float64, summed over the tokens of a sentence
    counts: Tensor  # (B,) float64, number of tokens of a sentence

    def changed(self, site: ChangedSite, change: Change) -> Tensor:
        """Return the losses (B,) with ``change`` applied to a module's head outputs."""
        ...


class Adapter(Protocol[Batch, OwnSite]):
    """A model with its data."""

    path: str
    architecture: str
    unit: str  # what the loss is a mean over: token or example

    @property
    def sites(self) -> Sequence[OwnSite]:
        """Return the attention modules, in the order of components and layers."""
        ...

    @property
    def rows(self) -> int:
        """Return the rows of a batch for each sentence; 2 for a classifier of pairs."""
        ...

    def batches(self, subset: str, max_tokens: int, *, label: str = "") -> Batches[Batch]:
        """Return the batches of a split; ``label`` names the progress bar, if there is one."""
        ...

    def first(self, subset: str, count: int) -> set[int]:
        """Return the numbers of the first sentences of the split that the model can read."""
        ...

    def numbers(self, batch: Batch) -> list[int]:
        """Return the number of each sentence of a batch, from 0."""
        ...

    def states(self, batch: Batch, wanted: Wanted) -> dict[str, list[HeadStates]]:
        """Return component -> head states of each layer."""
        ...

    def tokens(self, batch: Batch, component: str, row: int) -> tuple[list[str], list[str]]:
        """Return the tokens of the queries and keys of a row, padding included.

        Queries of the encoder-decoder attention are labelled with the token that they predict, and
        positions of the decoder with the token that they read.
        """
        ...

    def losses(self, batch: Batch) -> Losses[OwnSite]:
        """Return the losses of a batch."""
        ...

    def gated_loss(self, batch: Batch, changes: Mapping[OwnSite, Change]) -> Tensor:
        """Return the summed loss with changed head outputs, for a backward pass."""
        ...

    def reads_like(self, other: Self) -> bool:
        """Return True if both models read the same tokens of the same data."""
        ...

    def encode(
        self, sentences: Sentences, target: Sequence[str] | None, beam: int
    ) -> Encoded[Batch]:
        """Return sentences as a batch; without ``target``, the model translates them."""
        ...

    def symbols(self, side: int, rows: Iterable[Tensor]) -> list[list[str]]:
        """Return the tokens of rows of ids, of the source (side 0) or target."""
        ...

    def check_prunable(self) -> None:
        """Raise ``UserError`` unless heads can be zeroed in the output projections."""

    def zero(self, head: Head) -> None:
        """Zero a head's columns of the output projection, in the model."""

    def save_pruned(self, heads: list[Head], output: str | Path, *, remove: bool) -> str:
        """Write the model without ``heads``, which are zeroed already; return a note, or ""."""
        ...

    def removal_group(self, count: int) -> int | None:
        """Return how ``save_pruned`` can remove the parameters of ``count`` heads.

        None: any heads. A number: so many neighbouring heads together, as many from every module.

        Raises:
            UserError: it cannot.
        """
        ...

    def check_translates(self) -> None:
        """Raise ``UserError`` unless ``bleu`` can translate and score."""

    def bleu(self, heads: list[Head], subset: str, *, cpu: bool) -> float:
        """Return sacreBLEU of a split without ``heads``, which are zeroed already."""
        ...


#: A model of either library. Which one it is, and so the type of its batches and sites, is known
#: only when it is opened.
AnyAdapter = Adapter[Any, Any]
