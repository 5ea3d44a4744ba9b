"""What languages and an earlier corpus decide for ``data-prep/prepare-own.sh``.

``python -m diverse_mha.corpora.own OPTIONS`` prints assignments of shell variables.
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import read_json, sha256_of
from diverse_mha.corpora import subwords
from diverse_mha.corpora.text import has_rules, rules_for


def decide(
    languages: Sequence[str], tokeniser: str, subwords_from: str, dictionary_from: str
) -> Iterator[str]:
    """Yield shell commands."""
    moses, rules = [rules_for(code) for code in languages], {"tokeniser": tokeniser}
    if subwords_from:
        root = _root(subwords_from, "subwords")
        rules = _rules(root)
        moses = [rules["moses"].get(code, own) for code, own in zip(languages, moses, strict=True)]
        words = [f"--vocabulary-threshold={rules['threshold']}"] if rules["threshold"] else []
        words += ["--pieces"] if rules["method"] == "sentencepiece" else []
        yield _assign("rules", rules["words"])
        yield _assign("earlier", _segmentation(root, languages, rules))
        yield _assign("earlier_words", words)
    if dictionary_from:
        folder = _root(dictionary_from, "dictionary") / "bin"
        yield _assign("earlier_dictionaries", [_dictionary(folder, code) for code in languages])
    yield _assign("moses", moses)
    by_words = {"zh"} if rules["tokeniser"] == "moses" else set()  # jieba has cut it into words
    sides = zip(("source", "target"), moses, strict=True)
    yield f"counted={','.join(side for side, code in sides if code not in by_words)}"
    if rules["tokeniser"] == "moses":
        if "zh" in moses:
            yield "require_jieba"
        for code in moses:
            if not has_rules(code):
                yield f"note 'note: no rules for {code}; those of English are used'"


def _assign(name: str, words: Sequence[str | Path]) -> str:
    return f"{name}=({shlex.join(map(str, words))})"


def _root(folder: str, what: str) -> Path:
    """Return the folder of a corpus, also if its ``bin`` is given."""
    path = Path(folder)
    root = path.absolute().parent if path.name == "bin" else path
    if not (root / "bin").is_dir():
        raise UserError(f"--{what}-from {folder}: no prepared corpus; give a folder with bin/")
    return root


def _rules(root: Path) -> Mapping:
    """Read how a corpus was prepared, as options of the tokeniser."""
    note = root / "bin" / "corpus.json"
    try:
        made = read_json(note, "prepare that corpus anew")
        sides = (made["source"], made["target"])
        tokeniser = made.get("tokeniser", "moses")
        flags = {
            "--normalise": made["normalise"],
            "--aggressive-dashes": made["aggressive_dashes"],
            "--lowercase": made["lowercase"],
            "--whole-letters": made.get("whole_letters", False),
        }
        words = [f"--normal-form={made.get('normal_form', 'NFC')}"]
        words += [word for word, wanted in flags.items() if wanted]
        return {
            "moses": dict(zip(sides, made["tokenizer_languages"], strict=True)),
            "tokeniser": tokeniser,
            "words": [*([] if tokeniser == "moses" else [f"--tokeniser={tokeniser}"]), *words],
            "model": subwords.MODEL_FILE[made["subwords"]],
            "method": made["subwords"],
            "threshold": int(made["vocabulary_threshold"]),
        }
    except (OSError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"--subwords-from {root}: {note.name} is missing or damaged; prepare it anew"
        ) from None


def _segmentation(root: Path, languages: Sequence[str], rules: Mapping) -> list[Path]:
    """Return the model of each side, and the vocabularies if there is a threshold."""
    joint = root / "bpe" / rules["model"]
    files = [joint] * 2 if joint.is_file() else [Path(f"{joint}.{code}") for code in languages]
    files += [root / f"bpe/vocab.{code}" for code in languages if rules["threshold"]]
    for number, path in enumerate(files):
        if not path.is_file():
            name = joint.name if number < 2 else path.name
            raise UserError(f"--subwords-from {root}: has no bpe/{name}; give another corpus")
    return files


def _dictionary(folder: Path, language: str) -> Path:
    """Return an earlier corpus' dictionary of a language, or the common one of all."""
    path = folder / f"dict.{language}.txt"
    if path.is_file():
        return path
    others = sorted(folder.glob("dict.*.txt"))
    if len({sha256_of(other) for other in others}) == 1:
        return others[0]
    there = ", ".join(other.name for other in others) or "none"
    raise UserError(f"--dictionary-from {folder}: has no {path.name}; there: {there}")


def main() -> None:
    """Print what the command line's options decide."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "target", "tokeniser", "subwords-from", "dictionary-from"):
        parser.add_argument(f"--{name}", default="")
    args = parser.parse_args()
    languages = (args.source, args.target)
    print(*decide(languages, args.tokeniser, args.subwords_from, args.dictionary_from), sep="\n")


if __name__ == "__main__":
    run_cli(main)
