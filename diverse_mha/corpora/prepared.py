"""Reads the ``corpus.json`` of a data folder; tokenises, segments and detokenises accordingly."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import subwords
from diverse_mha.corpora.text import make_detokeniser, make_tokeniser, read_lines

NOTE = "corpus.json"  # the file of a data folder that tells how it was prepared


class Preparation(NamedTuple):
    """Settings with which data-prep made a data folder; empty for other data.

    Attributes:
        languages: language -> language whose rules its tokeniser uses.
        tokeniser: keyword arguments for ``make_tokeniser``.
        post_process: value of fairseq's ``--post-process`` that removes the subwords.
        method: kind of subwords, "bpe" or "sentencepiece".
    """

    languages: Mapping[str, str] = MappingProxyType({})
    tokeniser: Mapping = MappingProxyType({"lowercase": False, "tokeniser": "moses"})
    post_process: str | None = None
    method: str = ""


def preparation(data: Path) -> Preparation:
    """Read ``corpus.json`` of a data folder."""
    note = data / NOTE
    if not note.is_file():
        return Preparation()
    try:
        made = json.loads(note.read_text(encoding="utf-8"))
        sides = zip((made["source"], made["target"]), made["tokenizer_languages"], strict=True)
        options = {
            "normalise": made["normalise"],
            # IWSLT14's test set has straight apostrophes.
            "straight_apostrophes": made["corpus"] == "iwslt14",
            "aggressive": made["aggressive_dashes"],
            "lowercase": made["lowercase"],
            "tokeniser": made.get("tokeniser", "moses"),
        }
        method = made["subwords"]
        return Preparation(dict(sides), options, subwords.POST_PROCESS[method], method)
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{note}: is damaged, or was not written by data-prep; prepare the data again"
        ) from error


def subwords_of(dictionary: Path) -> str | None:
    """Return the value of ``--post-process`` for a dictionary's subwords; None for whole words."""
    if not dictionary.is_file():
        raise UserError(f"{dictionary}: no such dictionary; check --target-lang")
    words = [line.rpartition(" ")[0] for line in read_lines(dictionary)]
    counts = {
        "sentencepiece": sum(word.startswith("\u2581") for word in words),
        "subword_nmt": sum(word.endswith("@@") for word in words),
    }
    kind = max(counts, key=lambda kind: counts[kind])
    return kind if counts[kind] else None


class Side(NamedTuple):
    """One language of a data folder: its tokeniser and subword model.

    Attributes:
        moses: language of the rules of tokeniser and detokeniser.
        made: preparation of the data.
        model: file of the subword model.
    """

    moses: str
    made: Preparation
    model: Path

    def tokenise(self) -> Callable[[str], str]:
        """Return a function that splits plain text into tokens."""
        return make_tokeniser(self.moses, **self.made.tokeniser)

    def words(self) -> Callable[[str], list[str]]:
        """Return a function that splits plain text into tokens without lowercasing or escapes."""
        tokenise = make_tokeniser(self.moses, **{**self.made.tokeniser, "lowercase": False})
        return lambda line: self.unescape(tokenise(line).split())

    def unescape(self, tokens: list[str]) -> list[str]:
        """Return tokens with Moses' escapes (``&apos;``, ``@-@``) undone."""
        if self.made.tokeniser["tokeniser"] == "none":
            return tokens
        from sacremoses import MosesDetokenizer

        plain = MosesDetokenizer(lang=self.moses).unescape_xml
        return ["-" if token == "@-@" else plain(token) for token in tokens]

    def detokenise(self) -> Callable[[str], str]:
        """Return a function that joins tokens to plain text."""
        return make_detokeniser(self.moses, self.made.tokeniser["tokeniser"])

    def encode(self) -> Callable[[str], str]:
        """Return a function that splits plain text into subwords."""
        tokenise, segment = self.tokenise(), subwords.make_segmenter(self.made.method, self.model)
        return lambda line: segment(tokenise(line))


def read_side(data: str | Path, language: str) -> Side:
    """Read the preparation of one language of the data folder ``bin/``, next to ``bpe/``."""
    made, note = preparation(Path(data)), Path(data, NOTE)
    if not made.method:
        raise UserError(
            f"{note}: no such file; plain text needs data made by data-prep/. For other data, "
            "tokenise the text and use fairseq-interactive"
        )
    if language not in made.languages:
        raise UserError(
            f"{note}: is of {' and '.join(made.languages)}, not {language}; give other data"
        )
    joint = note.absolute().parent.parent / "bpe" / subwords.MODEL_FILE[made.method]
    models = [joint, joint.with_name(f"{joint.name}.{language}")]
    model = next((path for path in models if path.is_file()), None)
    if model is None:
        raise UserError(f"{joint}: no such file; keep bpe/ beside {Path(data).name}/")
    return Side(made.languages[language], made, model)
