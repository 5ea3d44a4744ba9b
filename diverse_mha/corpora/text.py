"""Reads, writes and tokenises text."""

import bz2
import contextlib
import functools
import gzip
import io
import lzma
import re
import signal
import sys
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TypeVar

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import letters

BLOCK = 1 << 20
_DAMAGE = (lzma.LZMAError, zlib.error, EOFError)
#: Openers of packed files, by their first bytes.
_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
# ISO 639-2 and 639-3 codes of languages that sacremoses, jieba or sacreBLEU know.
_THREE_LETTERS = {
    **{"ces": "cs", "cze": "cs", "deu": "de", "ger": "de", "ell": "el", "gre": "el", "eng": "en"},
    **{"spa": "es", "est": "et", "fin": "fi", "fra": "fr", "fre": "fr", "hin": "hi", "hun": "hu"},
    **{"isl": "is", "ita": "it", "jpn": "ja", "kor": "ko", "lit": "lt", "lav": "lv", "nld": "nl"},
    **{"dut": "nl", "pol": "pl", "por": "pt", "ron": "ro", "rum": "ro", "rus": "ru", "slk": "sk"},
    **{"slv": "sl", "swe": "sv", "tam": "ta", "tel": "te", "zho": "zh", "chi": "zh", "cmn": "zh"},
    **{"asm": "as", "ben": "bn", "cat": "ca", "gle": "ga", "guj": "gu", "kan": "kn", "mal": "ml"},
    **{"mar": "mr", "ori": "or", "pan": "pa"},
}

Parsed = TypeVar("Parsed")


@contextlib.contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacked if it is gzip, bzip2 or xz under any name."""
    with open(path, "rb") as raw:
        start = raw.read(6)
    opener = next((opens for magic, opens in _PACKED.items() if start.startswith(magic)), open)
    try:
        with opener(path, "rb") as file:
            yield file
    except (*_DAMAGE, OSError) as error:
        # gzip and bzip2 raise a bare OSError for damaged data.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = str(error).partition("\n")[0] or "it ends too early"
        raise UserError(f"{path} is damaged or cut off ({reason}); fetch it again") from None


def read_lines(path: Path, name: str | None = None) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, plain or packed, without line ends and byte order mark.

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


def count_lines(path: Path) -> int:
    """Count lines as :func:`read_lines` yields them."""
    count, last = 0, b"\n"
    with open_unpacked(path) as file:
        while block := file.read(BLOCK):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def parse_lines(path: Path, parse: Callable[[str], Parsed]) -> Iterator[tuple[int, Parsed]]:
    """Yield the number of each line, from 1, and what ``parse`` returns for it."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            parsed = parse(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        yield number, parsed


def read_parallel(texts: Mapping[str, Path], blank: Container[str] = ()) -> list[list[str]]:
    """Read texts of the same number of lines, by the option that gives each (``--reference``).

    Texts in ``blank`` may have only empty lines, as a ruined model may translate nothing.
    """
    found: dict[str, list[str]] = {}
    for option, path in texts.items():
        name = f"{option} {path}"
        if not path.is_file():
            raise UserError(f"{name}: no such file; check the name")
        lines = found[name] = list(read_lines(path, name))
        if not lines or (option not in blank and not any(map(str.strip, lines))):
            raise UserError(f"{name}: is empty; give a text with a sentence a line")
        first, others = next(iter(found.items()))
        if len(lines) != len(others):
            raise UserError(
                f"{name}: {len(lines):,} lines, {first} has {len(others):,}; line n of one must "
                "belong to line n of the other"
            )
    return list(found.values())


def rules_for(language: str) -> str:
    """Return the code of a language's rules: "fr" for "fra", "FR" and "fr-CA"."""
    code = re.split("[-_]", language.lower())[0]
    return _THREE_LETTERS.get(code, code)


def has_rules(code: str) -> bool:
    """Say whether sacremoses has rules for a code; otherwise it uses those of English."""
    from sacremoses.corpus import NonbreakingPrefixes

    return code in NonbreakingPrefixes().available_langs.values()


def make_tokeniser(
    language: str,
    *,
    normalise: bool = True,
    aggressive: bool = False,
    lowercase: bool = False,
    straight_apostrophes: bool = False,
    tokeniser: str = "moses",
    normal_form: str = "NFC",
    whole_letters: bool = True,
) -> Callable[[str], str]:
    """Return a function from a sentence to its tokens, joined by spaces, in the manner of Moses.

    Special characters are escaped (``'`` becomes ``&apos;``). Chinese ("zh") is cut into words by
    :mod:`diverse_mha.corpora.chinese` instead.

    Args:
        language: Code that sacremoses knows ("de"), whose abbreviations stay whole.
        normalise: Unify quotation marks, dashes and spaces first, and put a space for control
            characters; for Chinese only the latter.
        aggressive: Split words at inner dashes, as "@-@"; not for Chinese.
        lowercase: Lowercase the tokens.
        straight_apostrophes: Make typographic apostrophes straight first.
        tokeniser: "moses", or "none" for text that only sentencepiece cuts: spaces and control
            characters become single spaces.
        normal_form: One of :data:`letters.FORMS`, applied first.
        whole_letters: Marks and joiners stay with their letters, where Moses cuts.
    """
    raw = tokeniser == "none"
    prepare = functools.partial(_CONTROL.sub, " ") if normalise or raw else str
    if raw:

        def split(sentence: str) -> str:
            return " ".join(sentence.split())

    elif language == "zh":
        from diverse_mha.corpora.chinese import make_chinese_tokeniser

        split = make_chinese_tokeniser(letters.join_marks if whole_letters else list)
    else:
        from sacremoses import MosesPunctNormalizer

        cut = letters.make_tokeniser(language, whole_letters)
        normalizer = MosesPunctNormalizer(lang=language)

        def split(sentence: str) -> str:
            if normalise:
                sentence = normalizer.normalize(sentence)
            return cut(sentence, aggressive_dash_splits=aggressive)

    def tokenise(sentence: str) -> str:
        sentence = letters.normal_form(sentence, normal_form)
        if straight_apostrophes:
            sentence = sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        # sacremoses would join "a<tab>b".
        tokens = split(prepare(sentence))
        return tokens.lower() if lowercase else tokens

    return tokenise


def make_detokeniser(language: str, tokeniser: str = "moses") -> Callable[[str], str]:
    """Return a function from tokens to plain text, with Moses' rules, or none."""
    return str if tokeniser == "none" else letters.make_detokeniser(language)


def filter_cli(function: Callable[[str], str]) -> None:
    """Write ``function`` of each line of standard input, in UTF-8; the caller reports Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    source = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="\n")
    target = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    for line in source:
        target.write(function(line.rstrip("\n")) + "\n")
    target.detach()  # flushes
