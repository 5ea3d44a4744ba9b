"""What the prepare command has to know about a corpus, as plain data."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from diverse_mha.corpora.counts import PaperCount
from diverse_mha.corpora.published import Member, PublishedFile, unchecked

SPLITS = ("train", "valid", "test")

Side = PublishedFile | Member
Pair = tuple[Side, Side]  # source side, target side


@dataclass(frozen=True)
class Corpus:
    """A corpus: its files, and every rule that leads from them to fairseq's data.

    Attributes:
        name: Its name on the command line.
        about: One line for --help: what it is, how large, under which terms.
        source: Language code of the source side; also the ending of its files.
        target: Language code of the target side.
        files: For each split, the pairs (source side, target side) of published files, or of
            members of published archives, that make it up, in order. Empty if the corpus is
            generated.
        tokenised: The same for text that was published tokenised; only together with
            ``segmented``.
        segmented: The same for text that was published in subwords. Such a corpus is taken as
            it is: ``files`` and ``tokenised`` then hold the references of valid and test.
        codes: The merges of a segmented corpus, for segmenting further text.
        generated: Whether the corpus comes from :mod:`diverse_mha.corpora.demo`.
        moses_languages: Codes that choose the abbreviations of the tokeniser, if they are not
            the language codes themselves.
        aggressive_dashes: Whether to split words at inner dashes.
        normalise: Whether to unify quotation marks, dashes and spaces before tokenising.
        straight_apostrophes: Splits in which a typographic apostrophe becomes a straight one
            before tokenising.
        lowercase: Whether to lowercase.
        min_length: Shortest training sentence to keep, in tokens.
        max_length: Longest training sentence to keep, in tokens.
        max_ratio: Largest ratio of the two sides' lengths to keep in training.
        sample: Number of training pairs to draw at random; None takes all.
        valid_every: Hold out every n-th training pair that passes the filter as valid; the
            corpus then has no valid files.
        subwords: How to split words by default, "bpe" or "sentencepiece".
        merges: Number of BPE merges, or sentencepiece pieces; of both sides together if
            ``joint_subwords``, else of each side.
        joint_subwords: Whether both sides share one segmentation.
        joined: Whether both languages share one dictionary by default.
        dictionary_size: Keep this many of the most frequent types in the dictionary; None: all.
        unsized: Bytes of those files whose size is not published (an estimate).
        unpacked: Bytes of the members that are unpacked while fetching (an estimate).
        text: Bytes of the text that goes through the steps, both sides (an estimate).
        counts: The papers' numbers of pairs, to compare the result with.
        licence: The terms of use.
    """

    name: str
    about: str
    source: str
    target: str
    files: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)
    tokenised: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)
    segmented: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)
    codes: Side | None = None
    generated: bool = False
    moses_languages: tuple[str, str] | None = None
    aggressive_dashes: bool = False
    normalise: bool = True
    straight_apostrophes: tuple[str, ...] = ()
    lowercase: bool = False
    min_length: int = 1
    max_length: int = 250
    max_ratio: float = 9.0
    sample: int | None = None
    valid_every: int | None = None
    subwords: str = "bpe"
    merges: int = 8000
    joint_subwords: bool = True
    joined: bool = True
    dictionary_size: int | None = None
    unsized: int = 0
    unpacked: int = 0
    text: int = 0
    counts: tuple[PaperCount, ...] = ()
    licence: str = ""

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source, self.target

    def sides(self) -> Iterator[tuple[str, Side]]:
        """Yield every (split, file or member) of the corpus, in order."""
        for parts in (self.files, self.tokenised, self.segmented):
            for split in SPLITS:
                for pair in parts.get(split, ()):
                    for side in pair:
                        yield split, side
        if self.codes is not None:
            yield "codes", self.codes

    def published(self) -> list[PublishedFile]:
        """Return the files to fetch, each once, in order of first use."""
        files = {}
        for _, side in self.sides():
            files[side.archive if isinstance(side, Member) else side] = None
        return list(files)

    def unchecked(self) -> "Corpus":
        """Return this corpus without any knowledge of sizes, checksums and numbers of lines.

        The sum of the sizes stays, as the estimate of what has none.
        """

        def strip(parts: Mapping[str, tuple[Pair, ...]]) -> dict[str, tuple[Pair, ...]]:
            return {
                split: tuple((unchecked(source), unchecked(target)) for source, target in pairs)
                for split, pairs in parts.items()
            }

        return dataclasses.replace(
            self,
            files=strip(self.files),
            tokenised=strip(self.tokenised),
            segmented=strip(self.segmented),
            codes=None if self.codes is None else unchecked(self.codes),
            unsized=self.unsized + sum(file.size or 0 for file in self.published()),
        )
