"""Converts between plain text and subwords as a data folder was prepared."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import subwords
from diverse_mha.corpora.text import make_detokeniser, make_tokeniser


class Side(NamedTuple):
    """One language of a data folder, and what turns its text into subwords.

    Attributes:
        language: its code in the names of the files.
        moses: the language whose rules the tokeniser and the detokeniser follow.
        post_process: what undoes the subwords, as ``--post-process`` takes it.
        tokeniser: the arguments of ``make_tokeniser`` beside the language.
        segmenter: the arguments of ``make_segmenter``.
    """

    language: str
    moses: str
    post_process: str
    tokeniser: dict
    segmenter: dict

    def tokenise(self) -> Callable[[str], str]:
        """Return the function from plain text to tokens."""
        return make_tokeniser(self.moses, **self.tokeniser)

    def detokenise(self) -> Callable[[str], str]:
        """Return the function from tokens to plain text."""
        return make_detokeniser(self.moses, self.tokeniser["tokeniser"])

    def encode(self) -> Callable[[str], str]:
        """Return the function from plain text to subwords."""
        tokenise, segment = self.tokenise(), subwords.make_segmenter(**self.segmenter)
        return lambda line: segment(tokenise(line))


def read_side(data: str | Path, language: str) -> Side:
    """Read how one language of ``bin``, which data-prep made beside ``bpe``, was prepared."""
    note = Path(data, "corpus.json")
    if not note.is_file():
        raise UserError(
            f"{note}: no such file; plain text is for data that data-prep/ made, "
            "other text goes through its own tokeniser and fairseq-interactive"
        )
    try:
        made = json.loads(note.read_text(encoding="utf-8"))
        number = (made["source"], made["target"]).index(language)
        moses, method = made["tokenizer_languages"][number], made["subwords"]
        post_process = subwords.POST_PROCESS[method]
        iwslt14 = made["corpus"] == "iwslt14"  # whose test set has straight apostrophes
        options = {
            "normalise": made.get("normalise", not iwslt14),  # older notes lack it
            "straight_apostrophes": iwslt14,
            "aggressive": made["aggressive_dashes"],
            "lowercase": made["lowercase"],
            "tokeniser": made.get("tokeniser", "moses"),
            "normal_form": made.get("normal_form", "NFC"),  # which published text has
            "whole_letters": made.get("whole_letters", False),
        }
        threshold = made.get("vocabulary_threshold", 0)
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(f"{note}: damaged, or not of data-prep with {language}") from error
    folder = note.absolute().parent.parent / "bpe"
    name = subwords.MODEL_FILE[method]
    models = [folder / name, folder / f"{name}.{language}"]
    model = next((path for path in models if path.is_file()), None)
    if model is None:
        raise UserError(f"{models[0]}: no such file; keep bpe/ beside {Path(data).name}/")
    vocabulary = folder / f"vocab.{language}"
    segmenter = dict(method=method, model=model, vocabulary=vocabulary, threshold=threshold)
    return Side(language, moses, post_process, options, segmenter)


class Preparation(NamedTuple):
    """What data-prep says of a data folder; of other data it says nothing.

    Attributes:
        languages: Moses' languages by ours.
        lowercase: Whether the text was lower-cased.
        tokeniser: "moses", or "none".
        post_process: What undoes the subwords, as ``--post-process`` takes it.
    """

    languages: Mapping[str, str | None] = MappingProxyType({})
    lowercase: bool = False
    tokeniser: str = "moses"
    post_process: str | None = None


def preparation(data: Path) -> Preparation:
    """Read what data-prep left in the data folder."""
    note = data / "corpus.json"
    if not note.is_file():
        return Preparation()
    try:
        made = json.loads(note.read_text(encoding="utf-8"))
        sides = zip((made["source"], made["target"]), made["tokenizer_languages"], strict=True)
        return Preparation(
            dict(sides),
            bool(made.get("lowercase", False)),
            made.get("tokeniser", "moses"),
            made.get("post_process") or subwords.POST_PROCESS.get(made.get("subwords")),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"{note}: damaged, or not of data-prep; prepare the data anew, or, without --source, "
            "delete it and give --moses-language"
        ) from error
