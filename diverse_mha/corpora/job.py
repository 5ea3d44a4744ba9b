"""One corpus on its way through the steps."""

from dataclasses import dataclass, replace
from pathlib import Path

from diverse_mha.corpora.corpus import Corpus


@dataclass(frozen=True)
class Job:
    """What to prepare, from where, and where to.

    Attributes:
        corpus: What to prepare, with all that was chosen.
        out: The output folder.
        local: Folder that stands in for the download, or None.
        workers: Number of processes.
    """

    corpus: Corpus
    out: Path
    local: Path | None = None
    workers: int = 1

    def unpacked(self) -> "Job":
        """Return this job with the texts of archives that ``local`` has unpacked."""
        if self.local is None:
            return self
        return replace(self, corpus=self.corpus.as_unpacked(self.local))

    def sides(self, folder: Path, split: str) -> tuple[Path, ...]:
        """Return a split's files in a folder, one for each language."""
        return tuple(folder / f"{split}.{language}" for language in self.corpus.languages)
