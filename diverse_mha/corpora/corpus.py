"""What the prepare command has to know about a corpus, and about one preparation of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from diverse_mha.corpora.counts import PaperCount
from diverse_mha.corpora.published import Member, PublishedFile, file_of, unchecked

SPLITS = ("train", "valid", "test")

Side = PublishedFile | Member
Sides = tuple[Side, ...]  # source side, target side; of running text one
Parts = Mapping[str, tuple[Sides, ...]]


@dataclass(frozen=True)
class Corpus:
    """A corpus: its files, and every rule that leads from them to fairseq's data.

    Many of the rules are options of the command line; the values here are their defaults.

    Attributes:
        name: Its name on the command line.
        about: One line for --help: what it is, how large, under which terms.
        languages: Codes of source and target, also the endings of their files; of running text,
            for language models, only the ending.
        files: For each split, the texts, each of as many published files, or members of
            published archives, as there are languages, that make it up, in order. Empty if the
            corpus is generated.
        tokenised: The same for text that was published tokenised; only together with
            ``segmented``.
        segmented: The same for text that was published in subwords. Such a corpus is taken as
            it is: ``files`` and ``tokenised`` then hold the references of valid and test.
        codes: The merges of a segmented corpus, for segmenting further text.
        generated: Whether the corpus comes from :mod:`diverse_mha.corpora.demo`.
        pairs: Training pairs to generate.
        seed: Seed of the generator.
        moses_languages: Codes that choose the abbreviations of the tokeniser, if they are not
            ``languages``.
        aggressive_dashes: Whether words are split at inner dashes.
        normalise: Whether punctuation is normalised before tokenising.
        straight_apostrophes: Splits whose typographic apostrophes are made straight first.
        lowercase: Whether to lowercase.
        tokeniser: "moses", or "none" where sentencepiece alone cuts text.
        normal_form: Into which of Unicode's the text is brought; None leaves it as published.
        whole_letters: Whether marks and joiners stay with their letters, where Moses cuts.
        min_length: Shortest training sentence to keep, in tokens.
        max_length: Longest training sentence to keep, in tokens.
        max_ratio: Largest ratio of the two sides' lengths to keep in training.
        count_letters: Whether lengths are in letters for scripts without spaces between words.
        sample: Number of training pairs to draw at random; None takes all.
        sample_seed: Seed of the draw.
        valid_every: Hold out every n-th training pair that passes the filter as valid; the
            corpus then has no valid files.
        subwords: How to split words, "bpe" or "sentencepiece".
        merges: Number of BPE merges, or sentencepiece pieces; of both sides together if
            ``joint_subwords``, else of each side.
        vocabulary_threshold: Subwords rarer than this in a language are split up again (bpe only).
        joint_subwords: Whether both sides share one segmentation.
        joined: Whether both languages share one dictionary.
        dictionary_size: Keep this many of the most frequent types in the dictionary; None: all.
        min_count: Words rarer than this in running text become ``<unk>``; 0 keeps all.
        tokens: For each split, the words and sentence ends that running text must have.
        unsized: Bytes of those files whose size is not published (an estimate).
        unpacked: Bytes of the members that are unpacked while fetching (an estimate).
        text: Bytes of the text that goes through the steps, all sides (an estimate).
        counts: The papers' numbers of pairs, to compare the result with.
        checked: Whether the files are compared with what is known of them.
    """

    name: str
    about: str
    languages: tuple[str, ...]
    files: Parts = field(default_factory=dict)
    tokenised: Parts = field(default_factory=dict)
    segmented: Parts = field(default_factory=dict)
    codes: Side | None = None
    generated: bool = False
    pairs: int = 5000
    seed: int = 1
    moses_languages: tuple[str, str] | None = None
    aggressive_dashes: bool = False
    normalise: bool = True
    straight_apostrophes: tuple[str, ...] = ()
    lowercase: bool = False
    tokeniser: str = "moses"
    normal_form: str | None = None
    whole_letters: bool = False
    min_length: int = 1
    max_length: int = 250
    max_ratio: float = 9.0
    count_letters: bool = False
    sample: int | None = None
    sample_seed: int = 1
    valid_every: int | None = None
    subwords: str = "bpe"
    merges: int = 8000
    vocabulary_threshold: int = 0
    joint_subwords: bool = True
    joined: bool = True
    dictionary_size: int | None = None
    min_count: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    unsized: int = 0
    unpacked: int = 0
    text: int = 0
    counts: tuple[PaperCount, ...] = ()
    checked: bool = True

    @property
    def running_text(self) -> bool:
        """Whether it has one side only, for a language model."""
        return len(self.languages) == 1

    @property
    def tokeniser_languages(self) -> tuple[str, ...]:
        """Codes that choose the tokenisers of source and target."""
        return self.moses_languages or self.languages

    @property
    def script_rules(self) -> dict:
        """The rules for text in any script, but for those that are off, as in published text."""
        names = "tokeniser", "normal_form", "whole_letters"
        rules = {name: getattr(self, name) for name in names}
        return {name: rule for name, rule in rules.items() if rule not in ("moses", None, False)}

    @property
    def limits(self) -> dict:
        """The limits of the length filter, as :func:`choose.keep_pair` takes them."""
        return {name: getattr(self, name) for name in ("min_length", "max_length", "max_ratio")}

    def sides(self) -> Iterator[tuple[str, Side]]:
        """Yield every (split, file or member) of the corpus, in order."""
        for parts in (self.files, self.tokenised, self.segmented):
            for split in SPLITS:
                for text in parts.get(split, ()):
                    for side in text:
                        yield split, side
        if self.codes is not None:
            yield "codes", self.codes

    def published(self) -> list[PublishedFile]:
        """Return the files to fetch, each once, in order of first use."""
        return list(dict.fromkeys(file_of(side) for _, side in self.sides()))

    def unchecked(self) -> "Corpus":
        """Return this corpus without any knowledge of sizes, checksums and numbers of lines.

        The sum of the sizes stays, as the estimate of what has none.
        """
        return replace(
            self.with_sides(lambda split, side: unchecked(side)),
            tokens={},
            unsized=self.unsized + sum(file.size or 0 for file in self.published()),
            checked=False,
        )

    def with_sides(self, change: Callable[[str, Side], Side]) -> "Corpus":
        """Return this corpus with every file and member of a split changed."""
        parts = {
            name: {
                split: tuple(tuple(change(split, side) for side in text) for text in texts)
                for split, texts in getattr(self, name).items()
            }
            for name in ("files", "tokenised", "segmented")
        }
        codes = None if self.codes is None else change("codes", self.codes)
        return replace(self, **parts, codes=codes)


@dataclass(frozen=True)
class Job:
    """One corpus on its way through the steps.

    Attributes:
        corpus: What to prepare, with all that was chosen.
        out: The output folder.
        local: Folder that stands in for the download, or None.
        workers: Number of processes.
        force: Whether another corpus in ``out`` may be replaced.
        subwords_from: Folder ``bpe`` of an earlier corpus, whose subwords are taken.
        dictionary_from: Folder ``bin`` of an earlier corpus, whose dictionaries are taken.
    """

    corpus: Corpus
    out: Path
    local: Path | None = None
    workers: int = 1
    force: bool = False
    subwords_from: Path | None = None
    dictionary_from: Path | None = None

    def unpacked(self) -> "Job":
        """Return this job with running text of archives as ``local`` has it, unpacked."""
        folder = self.local
        if folder is None or not self.corpus.running_text:
            return self

        def text_of(split: str, side: Side) -> Side:
            if not isinstance(side, Member) or (folder / side.archive.name).is_file():
                return side
            name = Path(side.name).name
            also = (f"{name}.gz", f"{split}.txt", f"{split}.txt.gz")
            text = PublishedFile(name, lines=side.lines, also=also)
            return text if text.in_folder(folder) else side

        return replace(self, corpus=self.corpus.with_sides(text_of))

    def sides(self, folder: Path, split: str) -> tuple[Path, ...]:
        """Return a split's files in a folder, one for each language."""
        return tuple(folder / f"{split}.{language}" for language in self.corpus.languages)
