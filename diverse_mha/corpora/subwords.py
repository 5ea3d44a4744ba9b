"""Subword segmentation with subword-nmt or sentencepiece.

``python -m diverse_mha.corpora.subwords COMMAND ...``: learn, learn-escaped, dictionary, blanks,
unknown, apply, vocabulary or hashes.
"""

import contextlib
import io
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.vocabulary import dictionaries_of
from diverse_mha.corpora.running_text import SPLITS, share_outside
from diverse_mha.corpora.text import filter_cli, read_lines

# Kind of subwords -> value of fairseq-generate's --post-process.
POST_PROCESS = {"bpe": "subword_nmt", "sentencepiece": "sentencepiece"}
MODEL_FILE = {"bpe": "codes", "sentencepiece": "sentencepiece.model"}
BLANK = "\u2581"  # sentencepiece's mark of a blank
# Characters that sentencepiece reserves -> noncharacters of Unicode, which replace them in pieces.
# sentencepiece does not learn from lines with U+2585.
ESCAPES = {BLANK: "\ufdd0", "\u2585": "\ufdd1"}
# Other names for special pieces. sentencepiece does not learn from a literal "<s>" in a text, so
# "<" and ">" could be unknown.
_SPECIAL = {"unk_piece": "\ufdd2", "bos_piece": "\ufdd3", "eos_piece": "\ufdd4"}
_ESCAPED = str.maketrans(ESCAPES)
_RESTORED = str.maketrans({escape: character for character, escape in ESCAPES.items()})


def restore(text: str) -> str:
    """Return joined pieces with the characters that :func:`learn_pieces` escaped."""
    return text.translate(_RESTORED)


@contextlib.contextmanager
def _escape_rules() -> Iterator[dict[str, str]]:
    """Context manager: yield options of sentencepiece's trainer, with which pieces keep any text.

    The model records the path of the file with the rules, so this is a bare name in the current
    folder, and equal texts give equal models.
    """
    rules = "".join(f"{ord(a):X}\t{ord(b):X}\n" for a, b in ESCAPES.items())
    with tempfile.TemporaryDirectory(prefix="subwords-") as folder, contextlib.chdir(folder):
        Path("escapes.tsv").write_text(rules, encoding="ascii")
        yield _SPECIAL | {"normalization_rule_tsv": "escapes.tsv"}


def learn_pieces(train: Sequence[Path], model: Path, pieces: int, *, escape: bool = False) -> int:
    """Train a sentencepiece BPE model; return its vocabulary size.

    The size is below ``pieces`` if the text has no further pair to merge.

    Args:
        train: texts to learn from.
        model: file to write.
        pieces: vocabulary size.
        escape: make the model escape the characters that sentencepiece reserves, so that
            :func:`join_subwords` returns any text unchanged. Otherwise the model reads U+2581 as a
            blank, as in the papers' corpora.
    """
    import sentencepiece

    train = [path.absolute() for path in train]
    escaped = _ESCAPED if escape else {}

    def learn(**more: Any) -> bytes:
        data = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(
                line.translate(escaped) for path in train for line in read_lines(path)
            ),
            model_writer=data,
            vocab_size=pieces,
            model_type="bpe",
            character_coverage=1.0,
            # The text is already normalised.
            normalization_rule_name="identity",
            minloglevel=2,
            **more,
        )
        return data.getvalue()

    try:
        with _escape_rules() if escape else contextlib.nullcontext({}) as rules:
            try:
                learned = learn(**rules)
            except RuntimeError as error:
                if "too high" not in str(error):
                    raise
                learned = learn(hard_vocab_limit=False, **rules)
    except RuntimeError as error:
        reason = str(error).replace("\n", " ").rpartition("] ")[2]
        if least := re.search(r"required_chars\. \d+ vs (\d+)", reason):
            reason = f"every character needs a piece; give {least[1]} or more"
        message = f"--merges {pieces}: sentencepiece cannot learn the pieces: {reason}"
        raise UserError(message) from None
    model.write_bytes(learned)
    return _processor(model).get_piece_size()


def _processor(model: Path):
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_proto=model.read_bytes())


def reads_blanks(method: str, model: Path) -> bool:
    """Return True if a subword model reads U+2581 in a text as a blank."""
    if method != "sentencepiece":
        return False
    return ESCAPES[BLANK] not in "".join(_processor(model).encode(BLANK, out_type=str))


def report_blanks(model: Path, texts: Sequence[Path]) -> None:
    """Print a warning for each text with U+2581, if a sentencepiece model reads it as a blank."""
    if not reads_blanks("sentencepiece", model):
        return
    for path in texts:
        found = [number for number, line in enumerate(read_lines(path), 1) if BLANK in line]
        if found:
            print(f"warning: {path.name}: {blanks_found(found)}", file=sys.stderr)


def blanks_found(lines: Sequence[int]) -> str:
    """Describe lines with U+2581, given their numbers."""
    which = f"line {lines[0]:,}" + (f" and {len(lines) - 1:,} more" if len(lines) > 1 else "")
    return f"{which}: the subword model reads {BLANK} (U+2581) as a blank; write another character"


def dictionary(model: Path, vocabularies: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of a fairseq dictionary with all pieces of a model and their counts.

    Because the dictionary has all pieces, only characters that the model lacks are unknown.
    """
    processor, counts = _processor(model), Counter()
    for path in vocabularies:
        for line in read_lines(path):
            piece, count = line.rsplit(" ", 1)
            counts[piece] += int(count)
    plain = (
        n for n in range(len(processor)) if not (processor.is_control(n) or processor.is_unknown(n))
    )
    pieces = sorted(map(processor.id_to_piece, plain), key=lambda piece: (-counts[piece], piece))
    for piece in pieces:
        yield f"{piece} {counts[piece]}"
    # fairseq pads a dictionary, with its four special tokens, to a multiple of eight.
    for number in range(-(len(pieces) + 4) % 8):
        yield f"madeupword{number:04} 0"


def unknown_tokens(folder: Path, dictionaries: Sequence[Path]) -> str:
    """Return a message with the share of unknown tokens of each language's training text.

    ``folder`` has the segmented splits. For a share of 1 % or more, a warning is printed on
    standard error.
    """
    shares = []
    for path in dictionaries:
        language = path.suffixes[-2][1:]
        known = {line.rsplit(" ", 1)[0] for line in read_lines(path)}
        for split in SPLITS:
            share = share_outside(known, folder / f"{split}.{language}")
            shares += [f"{share:.2%} of {language}"] if split == "train" else []
            if share >= 0.01:
                print(
                    f"warning: {split}.{language}: {share:.1%} of the tokens are not in the "
                    "dictionary of the earlier corpus; its models read them as <unk>",
                    file=sys.stderr,
                )
    return f"unknown tokens in train: {', '.join(shares)}"


def make_segmenter(method: str, model: Path) -> Callable[[str], str]:
    """Return a function that splits a tokenised line into subwords, joined by spaces."""
    if method == "sentencepiece":
        processor = _processor(model)
        return lambda line: " ".join(processor.encode(line, out_type=str))

    from subword_nmt.apply_bpe import BPE

    with open(model, encoding="utf-8") as file:
        return BPE(file).process_line


def join_subwords(subwords: Sequence[str], kind: str | None) -> str:
    """Return the tokens that the subwords form, joined by spaces.

    ``kind`` is one of the values of ``POST_PROCESS``; with None, the subwords are not joined.
    """
    text = " ".join(subwords)
    if kind == "sentencepiece":
        return restore(text.replace(" ", "").replace(BLANK, " ").strip())
    return (text + " ").replace("@@ ", "").rstrip() if kind == "subword_nmt" else text


def vocabulary(lines: Iterable[str]) -> Iterator[str]:
    """Yield "subword count" of segmented lines, most frequent first."""
    counts = Counter(piece for line in lines for piece in line.split())
    for piece, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{piece} {count}"


def main() -> None:
    """Train a model on files, segment standard input, or write dictionaries, counts and hashes."""
    match sys.argv[1:]:
        case ["learn" | "learn-escaped" as what, pieces, model, *files]:
            texts, escape = [*map(Path, files)], what == "learn-escaped"
            print(f"{learn_pieces(texts, Path(model), int(pieces), escape=escape):,}")
        case ["dictionary", model, *files]:
            print(*dictionary(Path(model), [*map(Path, files)]), sep="\n")
        case ["blanks", model, *files]:
            report_blanks(Path(model), [*map(Path, files)])
        case ["unknown", folder, *files]:
            print(unknown_tokens(Path(folder), [*map(Path, files)]))
        case ["apply", model]:
            filter_cli(make_segmenter("sentencepiece", Path(model)))
        case ["vocabulary"]:
            print(*vocabulary(sys.stdin), sep="\n")
        case ["hashes", folder, *files]:
            print(json.dumps(dictionaries_of(Path(folder), *files)))
        case words:
            raise UserError(f"{words}: give a command and its files, as in apply MODEL")


if __name__ == "__main__":
    run_cli(main)
