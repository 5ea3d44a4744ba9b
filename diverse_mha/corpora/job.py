"""One corpus on its way through the steps, with everything that was asked for."""

from dataclasses import dataclass
from pathlib import Path

from diverse_mha.corpora.corpus import Corpus
from diverse_mha.corpora.demo import corpus as demo

SAMPLE_SEED = 1


@dataclass(frozen=True)
class Job:
    """One corpus on its way through the steps, with everything that was asked for.

    Attributes:
        corpus: What to prepare.
        out: The output folder.
        merges: Number of BPE merges or sentencepiece pieces.
        local: Folder that stands in for the download, or None.
        subwords: "bpe" or "sentencepiece".
        threshold: Subwords rarer than this in a language are split up again (bpe only).
        lowercase: Whether to lowercase.
        joined: Whether both languages share one dictionary.
        workers: Number of processes.
        pairs: Training pairs to generate (demo corpus only).
        seed: Seed of the generator (demo corpus only).
        sample: Training pairs to draw, or None for all.
        sample_seed: Seed of the draw.
        checked: Whether the files are checked against what is known of them. Without, the
            corpus must be one that :meth:`Corpus.unchecked` returned.
    """

    corpus: Corpus
    out: Path
    merges: int
    local: Path | None = None
    subwords: str = "bpe"
    threshold: int = 0
    lowercase: bool = False
    joined: bool = True
    workers: int = 1
    pairs: int = demo.PAIRS
    seed: int = demo.SEED
    sample: int | None = None
    sample_seed: int = SAMPLE_SEED
    checked: bool = True

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.corpus.languages

    @property
    def tokeniser_languages(self) -> tuple[str, str]:
        """Codes that choose the tokenisers of source and target."""
        return self.corpus.moses_languages or self.languages

    @property
    def downloads(self) -> Path:
        """The folder that downloads go to."""
        return self.out / "download"

    def sides(self, folder: Path, split: str) -> tuple[Path, Path]:
        """Return a split's source and target file in a folder."""
        source, target = self.languages
        return folder / f"{split}.{source}", folder / f"{split}.{target}"
