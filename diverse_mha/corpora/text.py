"""Parallel text: reading and writing it, tokenising it, dropping pairs that do not look right."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from diverse_mha.common.errors import UserError

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file without their line ends.

    Only ``\n`` (or ``\r\n``) ends a line. Python's own splitting also breaks at a few other
    characters that do occur in crawled text, and then one side has more lines than the other.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        try:
            for line in file:
                yield line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8 text ({error.reason}); convert it") from None


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines as UTF-8 and return their number."""
    count = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


def count_lines(path: Path) -> int:
    r"""Count lines as :func:`read_lines` yields them: a last line without ``\n`` counts too."""
    count, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def check_parallel(source: Path, target: Path) -> int:
    """Return the number of sentence pairs in two files.

    Raises:
        UserError: If the files differ in their number of lines, or have none.
    """
    source_count, target_count = count_lines(source), count_lines(target)
    if source_count != target_count:
        raise UserError(
            f"the two sides differ in length: {source} has {source_count:,} lines, "
            f"{target} has {target_count:,}; line n of one must translate line n of the other"
        )
    if source_count == 0:
        raise UserError(f"{source} and {target} are empty")
    return source_count


def make_tokeniser(
    language: str,
    *,
    normalise: bool = True,
    aggressive: bool = False,
    lowercase: bool = False,
    straight_apostrophes: bool = False,
) -> Callable[[str], str]:
    """Build a function from a sentence to its tokens, joined by spaces, in the manner of Moses.

    As in Moses, special characters are escaped (``'`` becomes ``&apos;``), and lowercasing comes
    last. Chinese ("zh") is cut into words by :mod:`diverse_mha.corpora.chinese` instead.

    Args:
        language: Whose abbreviations to keep whole, as a code that sacremoses knows ("de").
        normalise: Whether to unify quotation marks, dashes and spaces first, and
            to put a space for control characters; for Chinese only the latter.
        aggressive: Whether to split words at inner dashes, as "@-@"; not for Chinese.
        lowercase: Whether to lowercase.
        straight_apostrophes: Whether to turn typographic apostrophes into straight ones first.
    """
    prepare = functools.partial(_CONTROL.sub, " ") if normalise else str
    if language == "zh":
        from diverse_mha.corpora.chinese import make_chinese_tokeniser

        split = make_chinese_tokeniser()
    else:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        tokenizer = MosesTokenizer(lang=language)
        normalizer = MosesPunctNormalizer(lang=language)

        def split(sentence: str) -> str:
            if normalise:
                sentence = normalizer.normalize(sentence)
            return tokenizer.tokenize(sentence, aggressive_dash_splits=aggressive, return_str=True)

    def tokenise(sentence: str) -> str:
        if straight_apostrophes:
            sentence = sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        # Control characters not by sacremoses, which would join "a<tab>b".
        tokens = split(prepare(sentence))
        return tokens.lower() if lowercase else tokens

    return tokenise


def keep_pair(
    source: str, target: str, *, min_length: int = 1, max_length: int = 250, max_ratio: float = 9.0
) -> bool:
    """Tell whether a tokenised pair passes the length filter of Moses' clean-corpus-n.

    Both sides must have between ``min_length`` and ``max_length`` tokens, and neither may be
    more than ``max_ratio`` times as long as the other.
    """
    lengths = len(source.split()), len(target.split())
    shorter, longer = min(lengths), max(lengths)
    return min_length <= shorter and longer <= max_length and longer <= max_ratio * shorter


def filter_pairs(
    sources: tuple[Path, Path], targets: tuple[Path, Path], keep: Callable[[str, str], bool]
) -> tuple[int, int]:
    """Copy the pairs of two files for which ``keep`` is true.

    Args:
        sources: Source and target side to read.
        targets: Source and target side to write.
        keep: From a pair of lines to whether it stays; usually :func:`keep_pair` with its limits.

    Returns:
        The number of pairs kept and the number of pairs read.

    Raises:
        UserError: If the two sides differ in length, or nothing is left.
    """
    total, kept = check_parallel(*sources), 0
    open_text = functools.partial(open, mode="w", encoding="utf-8", newline="\n")
    with open_text(targets[0]) as source_file, open_text(targets[1]) as target_file:
        for source, target in zip(*map(read_lines, sources), strict=True):
            if keep(source, target):
                source_file.write(source + "\n")
                target_file.write(target + "\n")
                kept += 1
    if kept == 0:
        raise UserError(f"no pair of {sources[0]} and {sources[1]} passes the length filter")
    return kept, total
