"""Subwords of subword-nmt or sentencepiece; ``python -m`` learns and applies the latter's."""

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.text import filter_cli, read_lines

# Values of fairseq-generate's --post-process.
POST_PROCESS = {"bpe": "subword_nmt", "sentencepiece": "sentencepiece"}
MODEL_FILE = {"bpe": "codes", "sentencepiece": "sentencepiece.model"}


def learn_pieces(train: Sequence[Path], model: Path, pieces: int) -> None:
    """Learn sentencepiece's BPE on tokenised text, and write its model."""
    import sentencepiece

    data = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for path in train for line in read_lines(path)),
            model_writer=data,
            vocab_size=pieces,
            model_type="bpe",
            character_coverage=1.0,
            # The text is normalised already.
            normalization_rule_name="identity",
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).replace("\n", " ").rpartition("] ")[2]
        raise UserError(
            f"--merges {pieces}: sentencepiece cannot learn that many pieces: {reason}"
        ) from None
    model.write_bytes(data.getvalue())


def make_segmenter(method: str, model: Path) -> Callable[[str], str]:
    """Return the function from a tokenised line to its subwords, joined by spaces."""
    if method == "sentencepiece":
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_proto=model.read_bytes())
        return lambda line: " ".join(processor.encode(line, out_type=str))

    from subword_nmt.apply_bpe import BPE

    with open(model, encoding="utf-8") as file:
        return BPE(file).process_line


def vocabulary(lines: Iterable[str]) -> Iterator[str]:
    """Yield the subwords of segmented lines with their counts, most frequent first."""
    counts = Counter(piece for line in lines for piece in line.split())
    for piece, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{piece} {count}"


def main() -> None:
    """Learn pieces from files, apply a model to standard input, or count what it holds."""
    match sys.argv[1:]:
        case ["learn", pieces, model, *files]:
            learn_pieces([Path(file) for file in files], Path(model), int(pieces))
        case ["apply", model]:
            filter_cli(make_segmenter("sentencepiece", Path(model)))
        case ["vocabulary"]:
            print(*vocabulary(sys.stdin), sep="\n")
        case words:
            raise UserError(f"{words}: give learn PIECES MODEL FILES, apply MODEL, or vocabulary")


if __name__ == "__main__":
    run_cli(main)
