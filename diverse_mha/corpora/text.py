"""Text files (UTF-8, plain or gzip), tokenisation and detokenisation."""

import contextlib
import gzip
import io
import re
import signal
import sys
import unicodedata
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from diverse_mha.common.errors import UserError

# Codes of Chinese, Japanese and Korean -> codes that sacreBLEU and sacremoses know.
_TWO_LETTERS = {"cmn": "zh", "zho": "zh", "chi": "zh", "jpn": "ja", "kor": "ko"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
# Punctuation unknown to Moses that has no space before it: Greek, Armenian, Hebrew, Arabic, Indic,
# Ethiopic, Chinese and Japanese.
_ENDS = "\u037e\u0589\u05c3\u060c\u061b\u061f\u06d4\u0964\u0965\u1362\u1363"
_ENDS += "\u3001\u3002\uff01\uff0c\uff1f"
# Full-width punctuation, which has no spaces around it.
_WIDE = "[\u3000-\u3003\u3008-\u301f\u30fb\u2018-\u201d\uff01-\uff0f\uff1a-\uff20\uff3b-\uff65]"

Parsed = TypeVar("Parsed")


@contextlib.contextmanager
def open_unpacked(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Context manager: open a file for reading; gzip is recognised by content and unpacked."""
    with open(path, "rb") as raw:
        opener = gzip.open if raw.read(2) == b"\x1f\x8b" else open
    try:
        with opener(path, "rb") as file:
            yield file
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path} is damaged or cut off ({reason}); fetch it again") from None


def read_lines(path: Path, name: str | None = None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, plain or gzip, without line ends and byte order mark.

    Only ``\n`` (or ``\r\n``) ends a line; Python's own splitting would break parallel text at other
    characters. Messages call the file by ``name``, if given.
    """
    with open_unpacked(path) as file:
        try:
            for line in io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n"):
                yield line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            reason = f"is not UTF-8 text ({error.reason}); convert it"
            raise UserError(f"{name or path} {reason}") from None


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines as UTF-8 and return their number."""
    count = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


def parse_lines(path: Path, parse: Callable[[str], Parsed]) -> Iterator[tuple[int, Parsed]]:
    """Yield the number of each line, from 1, and the result of ``parse`` for the line."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            parsed = parse(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        yield number, parsed


def read_parallel(texts: Mapping[str, Path], blank: Container[str] = ()) -> list[list[str]]:
    """Return the lines of parallel texts; ``texts`` is option (such as ``--reference``) -> file.

    A text whose option is in ``blank`` may consist of empty lines, like a diverged model's output.
    """
    texts_read: dict[str, list[str]] = {}
    for option, path in texts.items():
        name = f"{option} {path}"
        if not path.is_file():
            raise UserError(f"{name}: no such file; check the name")
        lines = texts_read[name] = list(read_lines(path, name))
        if not lines or (option not in blank and not any(map(str.strip, lines))):
            raise UserError(f"{name}: is empty; give a text with a sentence a line")
        first, others = next(iter(texts_read.items()))
        if len(lines) != len(others):
            raise UserError(
                f"{name}: has {len(lines):,} lines, {first} has {len(others):,}; line n of one "
                "must belong to line n of the other"
            )
    return list(texts_read.values())


def rules_for(language: str) -> str:
    """Return the code of a language's rules: "fr" for "FR" and "fr-CA", "zh" for "cmn"."""
    code = re.split("[-_]", language.lower())[0]
    return _TWO_LETTERS.get(code, code)


def has_rules(code: str) -> bool:
    """Return True if sacremoses has rules for a code; otherwise it uses the rules of English."""
    from sacremoses.corpus import NonbreakingPrefixes

    return code in NonbreakingPrefixes().available_langs.values()


def _single_spaces(sentence: str) -> str:
    return " ".join(sentence.split())


def make_tokeniser(
    language: str,
    *,
    normalise: bool = True,
    aggressive: bool = False,
    lowercase: bool = False,
    straight_apostrophes: bool = False,
    tokeniser: str = "moses",
    nfc: bool = True,
) -> Callable[[str], str]:
    """Return a function that splits a sentence into tokens, joined by spaces, by Moses' rules.

    Special characters are escaped (``'`` becomes ``&apos;``), unless ``tokeniser`` is "none".
    Chinese ("zh") is split into words by :mod:`diverse_mha.corpora.chinese` instead.

    Args:
        language: Language of the rules, such as "de"; its abbreviations are not split.
        normalise: Unify quotation marks, dashes and spaces first (not for Chinese), and replace
            control characters by spaces.
        aggressive: Split words at hyphens ("@-@"); ignored for Chinese.
        lowercase: Lowercase the tokens.
        straight_apostrophes: Make typographic apostrophes straight first.
        tokeniser: "moses", or "none" for sentencepiece on raw text: words are not split, and white
            space and control characters become single spaces.
        nfc: Compose letters and their marks (Unicode's NFC) first.
    """
    raw = tokeniser == "none"
    split: Callable[[str], str]
    if raw:
        split = _single_spaces
    elif language == "zh":
        from diverse_mha.corpora.chinese import make_chinese_tokeniser

        split = make_chinese_tokeniser()
    else:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        cut = MosesTokenizer(lang=language).tokenize
        normalizer = MosesPunctNormalizer(lang=language)

        def split_as_moses(sentence: str) -> str:
            if normalise:
                sentence = normalizer.normalize(sentence)
            return str(cut(sentence, aggressive_dash_splits=aggressive, return_str=True))

        split = split_as_moses

    def tokenise(sentence: str) -> str:
        if nfc:
            sentence = unicodedata.normalize("NFC", sentence)
        if straight_apostrophes:
            sentence = sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        if normalise or raw:
            sentence = _CONTROL.sub(" ", sentence)  # sacremoses would join "a<tab>b"
        tokens = split(sentence)
        return tokens.lower() if lowercase else tokens

    return tokenise


def punctuation_of(language: str) -> dict[str, str]:
    """Return regular expressions of punctuation for detokenisers.

    "closing" matches tokens without a space before them; "wide" matches punctuation without spaces
    around it, with these spaces, and its first group has none. It is empty if there is none.
    """
    wide = f" ?({_WIDE}) ?" if language in ("zh", "ja", "yue") else ""
    return {"closing": f"^[,.?!:;\\\\%}}\\]){_ENDS}]+$", "wide": wide}


def make_detokeniser(language: str, tokeniser: str = "moses") -> Callable[[str], str]:
    """Return a function that joins tokens to plain text by Moses' rules (identity for "none")."""
    if tokeniser == "none":
        return str
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=language)
    punctuation = punctuation_of(language)
    moses.IS_PUNCT = re.compile(punctuation["closing"])
    wide = re.compile(punctuation["wide"]) if punctuation["wide"] else None

    def detokenise(line: str) -> str:
        text = moses.detokenize(line.split())
        return wide.sub(r"\1", text).strip() if wide else text

    return detokenise


def filter_cli(function: Callable[[str], str]) -> None:
    """Apply ``function`` to each line of standard input (UTF-8). Ctrl-C ends it silently."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    source = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="\n")
    target = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    for line in source:
        target.write(function(line.rstrip("\n")) + "\n")
    target.detach()  # flushes
