"""The corpora that the prepare command knows, each as one entry of :data:`CORPORA`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from diverse_mha.corpora.published import PublishedFile

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Corpus:
    """What the prepare command has to know about a corpus.

    Attributes:
        name: Its name on the command line.
        about: One line for --help: what it is, how large, under which terms.
        source: Language code of the source side; also the ending of its files.
        target: Language code of the target side.
        files: For each split, the pairs (source side, target side) of published files that
            make it up, in order. Empty if the corpus is generated.
        generated: Whether the corpus comes from :mod:`diverse_mha.corpora.demo`.
        moses_languages: Codes that choose the abbreviations of the tokeniser, if they are not
            the language codes themselves.
        aggressive_dashes: Whether to split words at inner dashes.
        lowercase: Whether to lowercase.
        min_length: Shortest training sentence to keep, in tokens.
        max_length: Longest training sentence to keep, in tokens.
        max_ratio: Largest ratio of the two sides' lengths to keep in training.
        merges: Number of BPE merges (or sentencepiece pieces) of both sides together.
    """

    name: str
    about: str
    source: str
    target: str
    files: Mapping[str, tuple[tuple[PublishedFile, PublishedFile], ...]] = field(
        default_factory=dict
    )
    generated: bool = False
    moses_languages: tuple[str, str] | None = None
    aggressive_dashes: bool = False
    lowercase: bool = False
    min_length: int = 1
    max_length: int = 250
    max_ratio: float = 9.0
    merges: int = 8000


def _multi30k(name: str, lines: int, sha256: str) -> PublishedFile:
    folders = (
        "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
        "https://github.com/multi30k/dataset/raw/master/data/task1/raw",
    )
    return PublishedFile(
        name=f"{name}.gz",
        urls=tuple(f"{folder}/{name}.gz" for folder in folders),
        text_checksum=f"sha256:{sha256}",
        lines=lines,
    )


MULTI30K = Corpus(
    name="multi30k",
    about="Multi30k task 1, German-English image captions: 29,000 pairs, 1.3 MB to download, "
    "for research only (Flickr30k terms)",
    source="de",
    target="en",
    files={
        "train": (
            (
                _multi30k(
                    "train.de",
                    29000,
                    "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
                ),
                _multi30k(
                    "train.en",
                    29000,
                    "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
                ),
            ),
        ),
        "valid": (
            (
                _multi30k(
                    "val.de",
                    1014,
                    "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
                ),
                _multi30k(
                    "val.en",
                    1014,
                    "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
                ),
            ),
        ),
        "test": (
            (
                _multi30k(
                    "test_2016_flickr.de",
                    1000,
                    "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
                ),
                _multi30k(
                    "test_2016_flickr.en",
                    1000,
                    "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
                ),
            ),
        ),
    },
    merges=8000,
)

DEMO = Corpus(
    name="demo",
    about="the generated corpus that comes with the project: two small invented languages, "
    "Lumi (lm) and Qorun (qo); needs no network",
    source="lm",
    target="qo",
    generated=True,
    moses_languages=("en", "en"),
    merges=600,
)

CORPORA: Mapping[str, Corpus] = {corpus.name: corpus for corpus in (DEMO, MULTI30K)}
