"""Moses' rules for text in any script: marks and joiners stay with their letters.

Moses cuts at characters that it does not know as letters, such as combining marks, joiners and soft
hyphens, and when it detokenises it attaches the end marks of Latin text only. This file needs
sacremoses alone, so that an exported model can include it.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable

from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.util import is_cjk

FORMS = ("NFC", "NFD", "NFKC", "NFKD", "none")

_TONES = "\U0001f3fb-\U0001f3ff"  # of skin, of emoji
_JOINER = "\u200d"
# Signs within words: middle dot, Greek and Armenian ones, Hebrew maqaf, geresh and gershayim,
# points within Arabic numbers, ends of Tibetan syllables, of Burmese and Ethiopic words.
_WITHIN = "\u00b7\u0387\u055a-\u055f\u058a\u05be\u05f3\u05f4\u066b\u066c\u0f0b\u0f0c\u104c-\u104f"
_WITHIN += "\u1361\u2027\u0970\u09fd\u0a76\u0af0"  # and Indic abbreviations
# Unicode's Terminal_Punctuation beyond ASCII, up to U+FFFF, without those above.
_ENDS = (
    "\u037e\u0589\u05c3\u060c\u061b\u061d-\u061f\u066a\u06d4\u0700-\u070a\u070c\u07f8\u07f9"
    "\u0830-\u0835\u0837-\u083e\u085e\u0964\u0965\u0e5a\u0e5b\u0f08\u0f0d-\u0f12\u104a\u104b"
    "\u1362-\u1368\u166e\u16eb-\u16ed\u1735\u1736\u17d4-\u17d6\u17da\u1802-\u1805\u1808\u1809"
    "\u1944\u1945\u1aa8-\u1aab\u1b4e\u1b4f\u1b5a\u1b5b\u1b5d-\u1b5f\u1b7d\u1b7e\u1c3b-\u1c3f"
    "\u1c7e\u1c7f\u203c\u203d\u2047-\u2049\u2cf9-\u2cfb\u2e2e\u2e3c\u2e41\u3001\u3002"
    "\ua4fe\ua4ff\ua60d-\ua60f\ua6f3-\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c7-\ua9c9"
    "\uaa5d-\uaa5f\uaadf\uaaf0\uaaf1\uabeb\ufe50-\ufe52\ufe54-\ufe57\uff01\uff0c\uff0e"
    "\uff1a\uff1b\uff1f\uff61\uff64"
)
_WIDE = "[\u3000-\u3003\u3008-\u301f\u30fb\u2018-\u201d\uff01-\uff0f\uff1a-\uff20\uff3b-\uff65]"
# Scripts without spaces between words, besides those of Chinese and Japanese: Thai, Lao, Tibetan,
# Burmese, Khmer and their neighbours.
_JOINED = "\u0e00-\u0e3e\u0e40-\u0fff\u1000-\u109f\u1780-\u17d3\u17d7\u17dc-\u17ff\u1950-\u19df"
_JOINED += "\u1a20-\u1aad\ua9e0-\ua9ff\uaa60-\uaa7f"
_HAN_KANA = "\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
_HAN_KANA += "\U00020000-\U0003ffff"
_UNSPACED = re.compile(f"[{_JOINED}{_HAN_KANA}]")


def normal_form(text: str, form: str) -> str:
    """Return a text in one of :data:`FORMS`."""
    return text if form == "none" else unicodedata.normalize(form, text)


def words_and_letters(text: str) -> int:
    """Count words, but letters (with their marks) in scripts without spaces."""
    count = 0
    for word in text.split():
        letters = (c for c in _UNSPACED.findall(word) if unicodedata.category(c)[0] != "M")
        count += max(1, sum(1 for _ in letters))
    return count


def make_tokeniser(language: str, whole: bool = True) -> Callable[..., str]:
    """Return Moses' tokeniser of a language; if ``whole``, words keep their marks and joiners.

    Then signs between letters also stay in scripts without spaces, and so does an apostrophe
    between letters in languages for which Moses has no rule.
    """
    moses = MosesTokenizer(lang=language)
    if whole:
        _widen(moses, language)
    return functools.partial(moses.tokenize, return_str=True)


def _widen(moses: MosesTokenizer, language: str) -> None:
    """Let a tokeniser treat marks, joiners and all letters as parts of words."""
    old = moses.IsAlnum
    marks, formats, letters = _characters(language in ("zh", "ja", "ko", "cjk"))
    more = f"{letters}{marks}{formats}{_JOINER}{_TONES}{_WITHIN}"

    def widened(rule: tuple[re.Pattern, str]) -> tuple[re.Pattern, str]:
        pattern = rule[0].pattern.replace(old, old + more)
        return _Rule(pattern.replace(moses.IsAlpha, moses.IsAlpha + more)), rule[1]

    word = f"{old}{more}"
    # A sign takes its marks and what a joiner joins to it. Other characters without width go with
    # the next word.
    sign = f"[^{word}\\s.'`,\\-][{marks}{_TONES}]*(?:[{formats}]+(?![{word}]))?"
    flag = "(?:(?<=[\U0001f1e6-\U0001f1ff])[\U0001f1e6-\U0001f1ff])?"
    within = re.compile(f'[{_JOINED}](.+)[{word}]|[\u05d0-\u05ea]"[\u05d0-\u05ea]')

    def pad(found: re.Match) -> str:
        around = found.string[max(0, found.start() - 1) : found.end() + 1]
        return found[0] if within.fullmatch(around) else f" {found[0]} "

    signs = re.compile(f"{sign}{flag}(?:{_JOINER}+(?:{sign})?)*")
    moses.PAD_NOT_ISALNUM = signs, pad
    moses.AGGRESSIVE_HYPHEN_SPLIT = widened(moses.AGGRESSIVE_HYPHEN_SPLIT)
    moses.ENGLISH_SPECIFIC_APOSTROPHE = [*map(widened, moses.ENGLISH_SPECIFIC_APOSTROPHE)]
    moses.FR_IT_SPECIFIC_APOSTROPHE = [*map(widened, moses.FR_IT_SPECIFIC_APOSTROPHE)]
    letter = f"[{moses.IsAlpha}{more}]"
    moses.NON_SPECIFIC_APOSTROPHE = _Rule(f"(?<!{letter})'|'(?!{letter})"), " ' "


class _Rule:
    """A rule for hyphens or apostrophes, tried only on text with one, as large classes are slow."""

    def __init__(self, pattern: str):
        self._pattern = re.compile(pattern)
        self._sign = "'" if "'" in pattern else "-"

    def sub(self, replacement: str, text: str) -> str:
        return self._pattern.sub(replacement, text) if self._sign in text else text


def join_marks(words: Iterable[str]) -> list[str]:
    """Join words that were cut before a mark or at a joiner."""
    joined: list[str] = []
    for word in words:
        first = word[:1]
        if joined and (
            joined[-1].endswith(_JOINER)
            or unicodedata.category(first or "-")[0] == "M"
            or unicodedata.category(first or "-") == "Cf"
            or re.match(f"[{_TONES}]", first)
        ):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def make_detokeniser(language: str) -> Callable[[str], str]:
    """Return Moses' detokeniser of a language, which also attaches the end marks of all scripts."""
    moses = MosesDetokenizer(lang=language)
    _, formats, _ = _characters(False)
    ends = f"^[,.?!:;\\\\%}}\\]){_ENDS}]+[{formats}]*$"
    moses.IS_PUNCT = re.compile(ends)
    wide = re.compile(f" ?({_WIDE}) ?") if language in ("zh", "ja", "yue") else None

    def detokenise(line: str) -> str:
        text = moses.detokenize(line.split())
        return wide.sub(r"\1", text).strip() if wide else text

    return detokenise


@functools.cache
def _characters(cjk: bool) -> tuple[str, str, str]:
    """Return regex classes of marks, format characters and letters.

    Letters of Chinese, Japanese and Korean are included if ``cjk``.
    """
    marks, formats, letters = [], [], []
    for number in (*range(0x20000), *range(0xE0000, 0xE0200)):
        character = chr(number)
        category = unicodedata.category(character)
        if category[0] == "M":
            marks.append(number)
        elif category == "Cf" and character != _JOINER:
            formats.append(number)
        elif (category[0] == "L" or category == "Nd") and (cjk or not is_cjk(character)):
            letters.append(number)
    return _ranges(marks), _ranges(formats), _ranges(letters)


def _ranges(numbers: Iterable[int]) -> str:
    """Return sorted code points as the ranges of a regex class."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in runs)
