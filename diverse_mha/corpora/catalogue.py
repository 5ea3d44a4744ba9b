"""The corpora: those of ``catalogue.toml``, by name, and a user's own."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from diverse_mha.corpora.corpus import SPLITS, Corpus, Sides
from diverse_mha.corpora.counts import PaperCount
from diverse_mha.corpora.published import Member, PublishedFile
from diverse_mha.corpora.text import rules_for

OWN = "own"


def _read(path: Path) -> dict[str, Corpus]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    files = {name: _file(content["mirrors"], **row) for name, row in content["files"].items()}
    return {name: _corpus(name, files, row) for name, row in content["corpora"].items()}


def _file(mirrors: Mapping, *, at="", path="", name="", urls=(), also=(), **known) -> PublishedFile:
    urls = urls or [f"{folder}/{path}" for folder in mirrors[at]]
    return PublishedFile(name or Path(path).name, tuple(urls), also=tuple(also), **known)


def _corpus(name: str, files: Mapping[str, PublishedFile], row: dict) -> Corpus:
    for part in ("files", "tokenised", "segmented"):
        row[part] = {
            split: tuple(_sides(files, row["languages"], **text) for text in texts)
            for split, texts in row.get(part, {}).items()
        }
    if "codes" in row:
        (row["codes"],) = _sides(files, ("",), **row["codes"])
    row["counts"] = [PaperCount(*count) for count in row.get("counts", ())]
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return Corpus(name, **row | lists)


def _sides(files: Mapping, languages: Sequence[str], *, file="", name="", **known) -> Sides:
    if file:
        return tuple(files[file.format(language)] for language in languages)
    archive = files[known.pop("in")]
    names = [name.format(x) for x in languages] if isinstance(name, str) else name
    return tuple(Member(archive, inside, **known) for inside in names)


#: The published corpora and the generated one; those of running text have one side.
CORPORA: Mapping[str, Corpus] = _read(Path(__file__).with_name("catalogue.toml"))


def own_corpus(source: str, target: str) -> Corpus:
    """Return the spec of a user's own translations: plain text, each split in two files."""
    return Corpus(
        OWN,
        about="your own corpus: a folder with train, valid and test as plain text, one sentence "
        "a line, each in two files such as train.de and train.en",
        languages=(source, target),
        moses_languages=(rules_for(source), rules_for(target)),
        normal_form="NFC",
        whole_letters=True,
        count_letters=True,
        files={
            split: ((PublishedFile(f"{split}.{source}"), PublishedFile(f"{split}.{target}")),)
            for split in SPLITS
        },
    )


def own_text() -> Corpus:
    """Return the spec of a user's own running text: train.txt, valid.txt and test.txt."""
    return Corpus(
        OWN,
        about="your own text: a folder with train.txt, valid.txt and test.txt, tokenised, one "
        "sentence or paragraph a line",
        languages=("txt",),
        files={
            split: ((PublishedFile(f"{split}.txt", also=(f"{split}.txt.gz",)),),)
            for split in SPLITS
        },
    )
