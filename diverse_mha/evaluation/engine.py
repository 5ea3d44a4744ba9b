"""What the two engines of a beam search have in common.

``translate`` and ``evaluate`` hand a text to an engine, which has one method: ``translate``. The
engines are :class:`~diverse_mha.evaluation.search.BeamSearch`, of fairseq, and
:class:`~diverse_mha.evaluation.ctranslate2_engine.CTranslate2`. This module imports neither.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from diverse_mha.common.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor


class Found(NamedTuple):
    """The best translation of a sentence."""

    subwords: list[str]
    score: float  # log-probability divided by length to the power of the length penalty
    tokens: "Tensor | None" = None  # token ids that end with eos; None with CTranslate2


class Text(Protocol):
    """Sentences to translate, in the forms that the engines read."""

    def sentences(self) -> list[list[str]]:
        """Return the sentences as subwords, for CTranslate2."""
        ...

    def dataset(self, task: Any) -> Any:
        """Return the sentences as a dataset of fairseq's task."""
        ...


class Engine(Protocol):
    """Translates with a model or an ensemble."""

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        ...

    @property
    def longest(self) -> int:
        """Maximum number of subwords in a source sentence, with eos."""
        ...

    def translate(self, text: Text, progress: Progress | None = None) -> Iterator[Found]:
        """Yield the best translation of each sentence, in order.

        Args:
            text: the sentences.
            progress: counts sentences.
        """
        ...


class Lines(NamedTuple):
    """Lines of plain text, cut into subwords."""

    subwords: list[list[str]]

    def sentences(self) -> list[list[str]]:
        """Return the lines as subwords."""
        return self.subwords

    def dataset(self, task: Any) -> Any:
        """Return the lines as a dataset of fairseq's task."""
        rows, lengths = task.get_interactive_tokens_and_lengths(self.subwords, " ".join)
        return task.build_dataset_for_inference(rows, lengths)
