"""Subword segmentation with subword-nmt or sentencepiece.

``python -m diverse_mha.corpora.subwords learn|dictionary|unknown|apply|vocabulary ...``
"""

import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.running_text import SPLITS, share_outside
from diverse_mha.corpora.text import filter_cli, read_lines

# Kind of subwords -> value of fairseq-generate's --post-process.
POST_PROCESS = {"bpe": "subword_nmt", "sentencepiece": "sentencepiece"}
MODEL_FILE = {"bpe": "codes", "sentencepiece": "sentencepiece.model"}


def learn_pieces(train: Sequence[Path], model: Path, pieces: int) -> int:
    """Train a sentencepiece BPE model; return its vocabulary size.

    The size is below ``pieces`` if the text has no further pair to merge.
    """
    import sentencepiece

    def learn(**more: bool) -> bytes:
        data = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for path in train for line in read_lines(path)),
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
        try:
            learned = learn()
        except RuntimeError as error:
            if "too high" not in str(error):
                raise
            learned = learn(hard_vocab_limit=False)
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
        return text.replace(" ", "").replace("\u2581", " ").strip()
    return (text + " ").replace("@@ ", "").rstrip() if kind == "subword_nmt" else text


def vocabulary(lines: Iterable[str]) -> Iterator[str]:
    """Yield "subword count" of segmented lines, most frequent first."""
    counts = Counter(piece for line in lines for piece in line.split())
    for piece, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{piece} {count}"


def main() -> None:
    """Train a model on files, segment standard input, or write dictionaries and counts."""
    match sys.argv[1:]:
        case ["learn", pieces, model, *files]:
            print(f"{learn_pieces([*map(Path, files)], Path(model), int(pieces)):,}")
        case ["dictionary", model, *files]:
            print(*dictionary(Path(model), [*map(Path, files)]), sep="\n")
        case ["unknown", folder, *files]:
            print(unknown_tokens(Path(folder), [*map(Path, files)]))
        case ["apply", model]:
            filter_cli(make_segmenter("sentencepiece", Path(model)))
        case ["vocabulary"]:
            print(*vocabulary(sys.stdin), sep="\n")
        case words:
            raise UserError(f"{words}: give learn, dictionary, unknown, apply or vocabulary")


if __name__ == "__main__":
    run_cli(main)
