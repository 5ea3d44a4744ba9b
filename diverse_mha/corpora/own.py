"""Prints settings of ``data-prep/prepare-own.sh`` that depend on languages or an earlier corpus.

``python -m diverse_mha.corpora.own OPTIONS`` prints shell commands: assignments of variables, and
calls of the script's functions.
"""

import argparse
import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import read_json
from diverse_mha.corpora import subwords
from diverse_mha.corpora.text import has_rules, make_tokeniser, read_lines, rules_for

CHECKED_LINES = 2000  # number of first lines on which Moses' tokeniser is tried
TORN_SHARE = 0.01  # allowed share of lines with a word split by the tokeniser
_HEBREW_SIGN = re.compile("[\u05d0-\u05ea][\"'\u05be\u05f3\u05f4][\u05d0-\u05ea]")


def decide(
    languages: Sequence[str], tokeniser: str, like: str, texts: Sequence[Path] = ()
) -> Iterator[str]:
    """Yield shell commands that set variables of the script, and call its functions.

    Args:
        languages: source and target language.
        tokeniser: "moses" or "none".
        like: folder of an earlier corpus whose preparation is repeated, or "".
        texts: training texts of both sides.
    """
    moses = [rules_for(code) for code in languages]
    if like:
        path = Path(like)
        root = path.absolute().parent if path.name == "bin" else path
        tokeniser, moses, variables = _earlier(root, languages)
        for name, words in variables.items():
            yield _assign(name, words)
    elif tokeniser == "moses":
        for code, text in zip(moses, texts, strict=False):
            check_moses(text, code)
    yield _assign("moses", moses)
    by_words = {"zh"} if tokeniser == "moses" else set()  # jieba separates the words
    sides = zip(("source", "target"), moses, strict=True)
    yield f"counted={','.join(side for side, code in sides if code not in by_words)}"
    if tokeniser == "moses":
        if "zh" in moses:
            yield "require_jieba"
        for code in moses:
            if not has_rules(code):
                yield f"note 'note: no rules for {code}; those of English are used'"


def check_moses(text: Path, code: str) -> None:
    """Raise an error if Moses' tokeniser splits words of a text at combining marks or letters.

    It does so in Thai, Khmer, Hindi with joiners, Persian and others. A share of ``TORN_SHARE`` of
    the lines may have such a word.
    """
    if code == "zh":  # segmented by jieba
        return
    from sacremoses import MosesDetokenizer

    tokenise, unescape = make_tokeniser(code), MosesDetokenizer(lang=code).unescape_xml
    lines = [line for line in islice(read_lines(text), CHECKED_LINES) if line.strip()]
    torn = []
    for line in lines:
        torn += [w for w in line.split() if _is_torn(unescape(tokenise(w)).split())][:1]
    if len(torn) > TORN_SHARE * len(lines):
        share = len(torn) / len(lines)
        raise UserError(
            f"--tokeniser moses: splits words such as {torn[0]!r} in {share:.0%} of the lines "
            f"of {text}; leave the option out"
        )


def _is_torn(tokens: Sequence[str]) -> bool:
    """Return True if a word was split within a word of letters and digits.

    The split is between two of them, at a combining mark or zero-width sign, or at a Hebrew sign.
    """
    if _HEBREW_SIGN.search("".join(tokens)) and len(tokens) > 1:
        return True
    for before, after in pairwise(tokens):
        kinds = [unicodedata.category(c) for c in (before[-1], after[0])]
        if any(kind[0] == "M" or kind == "Cf" for kind in kinds):
            return True
        if all(kind[0] in "LN" for kind in kinds):
            return True
    return False


def _assign(name: str, words: Sequence[str | Path]) -> str:
    return f"{name}=({shlex.join(map(str, words))})"


def _earlier(root: Path, languages: Sequence[str]) -> tuple[str, list[str], dict[str, list]]:
    """Return an earlier corpus' tokeniser, rules for each language, and variables to set."""
    try:
        made = read_json(root / "bin/corpus.json", "prepare that corpus again")
        moses = dict(
            zip((made["source"], made["target"]), made["tokenizer_languages"], strict=True)
        )
        flags = {
            "--normalise": made["normalise"],
            "--aggressive-dashes": made["aggressive_dashes"],
            "--lowercase": made["lowercase"],
        }
        tokeniser, model = made.get("tokeniser", "moses"), subwords.MODEL_FILE[made["subwords"]]
    except (OSError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"--like {root}: not a prepared corpus; give a folder with bin/") from None
    if set(languages) != set(moses):
        raise UserError(
            f"--like {root}: is a corpus of {' and '.join(moses)}; give one of "
            f"{' and '.join(languages)}"
        )
    rules = [] if tokeniser == "moses" else [f"--tokeniser={tokeniser}"]
    joint = root / "bpe" / model
    variables = {
        "rules": [*rules, "--nfc", *(word for word, wanted in flags.items() if wanted)],
        "earlier": [joint if joint.is_file() else f"{joint}.{code}" for code in languages],
        "earlier_dictionaries": [root / f"bin/dict.{code}.txt" for code in languages],
        "pieces": ["--pieces"] if made["subwords"] == "sentencepiece" else [],
    }
    for path in map(Path, variables["earlier"] + variables["earlier_dictionaries"]):
        if not path.is_file():
            raise UserError(f"--like {root}: has no {path.relative_to(root)}; give another corpus")
    return tokeniser, [moses[code] for code in languages], variables


def main() -> None:
    """Print the shell commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "target", "tokeniser", "like"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("texts", nargs="*", type=Path, help="training texts of both sides")
    args = parser.parse_args()
    languages = args.source, args.target
    print(*decide(languages, args.tokeniser, args.like, args.texts), sep="\n")


if __name__ == "__main__":
    run_cli(main)
