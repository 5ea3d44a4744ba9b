"""What languages and an earlier corpus decide for ``data-prep/prepare-own.sh``.

``python -m diverse_mha.corpora.own OPTIONS`` prints assignments of shell variables.
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import read_json
from diverse_mha.corpora import subwords
from diverse_mha.corpora.text import has_rules, rules_for


def decide(languages: Sequence[str], tokeniser: str, like: str) -> Iterator[str]:
    """Yield shell commands; ``like`` is the folder of an earlier corpus, or ""."""
    moses = [rules_for(code) for code in languages]
    if like:
        path = Path(like)
        root = path.absolute().parent if path.name == "bin" else path
        tokeniser, moses, found = _earlier(root, languages)
        for name, words in found.items():
            yield _assign(name, words)
    yield _assign("moses", moses)
    by_words = {"zh"} if tokeniser == "moses" else set()  # jieba has cut it into words
    sides = zip(("source", "target"), moses, strict=True)
    yield f"counted={','.join(side for side, code in sides if code not in by_words)}"
    if tokeniser == "moses":
        if "zh" in moses:
            yield "require_jieba"
        for code in moses:
            if not has_rules(code):
                yield f"note 'note: no rules for {code}; those of English are used'"


def _assign(name: str, words: Sequence[str | Path]) -> str:
    return f"{name}=({shlex.join(map(str, words))})"


def _earlier(root: Path, languages: Sequence[str]) -> tuple[str, list[str], dict[str, list]]:
    """Return an earlier corpus' tokeniser, its languages' rules, and options and files."""
    try:
        made = read_json(root / "bin/corpus.json", "prepare that corpus anew")
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
        raise UserError(f"--like {root}: no prepared corpus; give a folder with bin/") from None
    if set(languages) != set(moses):
        raise UserError(f"--like {root}: is of {' and '.join(moses)}; give a corpus of yours")
    rules = [] if tokeniser == "moses" else [f"--tokeniser={tokeniser}"]
    joint = root / "bpe" / model
    found = {
        "rules": [*rules, "--nfc", *(word for word, wanted in flags.items() if wanted)],
        "earlier": [joint if joint.is_file() else f"{joint}.{code}" for code in languages],
        "earlier_dictionaries": [root / f"bin/dict.{code}.txt" for code in languages],
        "pieces": ["--pieces"] if made["subwords"] == "sentencepiece" else [],
    }
    for path in map(Path, found["earlier"] + found["earlier_dictionaries"]):
        if not path.is_file():
            raise UserError(f"--like {root}: has no {path.relative_to(root)}; give another corpus")
    return tokeniser, [moses[code] for code in languages], found


def main() -> None:
    """Print what the command line's options decide."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "target", "tokeniser", "like"):
        parser.add_argument(f"--{name}", default="")
    args = parser.parse_args()
    print(*decide((args.source, args.target), args.tokeniser, args.like), sep="\n")


if __name__ == "__main__":
    run_cli(main)
