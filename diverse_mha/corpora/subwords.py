"""Subword segmentation, by subword-nmt or sentencepiece: for both sides in one, or each apart."""

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.text import count_lines, read_lines, write_lines

METHODS = ("bpe", "sentencepiece")
# What fairseq-generate --post-process needs to undo each of them.
POST_PROCESS = {"bpe": "subword_nmt", "sentencepiece": "sentencepiece"}
MODEL_FILE = {"bpe": "codes", "sentencepiece": "sentencepiece.model"}


def learn(method: str, train: Sequence[Path], model: Path, size: int) -> int:
    """Learn a segmentation by a method on tokenised training text, and write its model.

    Returns:
        The number learned. Merges are fewer than ``size`` where no pair occurs twice any more.

    Raises:
        UserError: If the text is too small for this size.
    """
    if method == "bpe":
        _learn_bpe(train, model, size)
        return count_lines(model) - 1  # the first line is the version
    _learn_sentencepiece(train, model, size)
    return size


def _learn_bpe(train: Sequence[Path], model: Path, merges: int) -> None:
    from subword_nmt.learn_bpe import learn_bpe

    words = Counter(word for path in train for line in read_lines(path) for word in line.split())
    # subword-nmt always draws its bar; keep it for people, not for log files.
    terminal = sys.stderr.isatty()
    quiet = contextlib.nullcontext() if terminal else contextlib.redirect_stderr(io.StringIO())
    with open(model, "w", encoding="utf-8", newline="\n") as file, quiet:
        try:
            learn_bpe([f"{word} {n}" for word, n in words.items()], file, merges, is_dict=True)
        except ValueError:  # it found no pair of symbols at all
            raise UserError(f"{train[0]} is too small to learn subwords from") from None


def _learn_sentencepiece(train: Sequence[Path], model: Path, pieces: int) -> None:
    import sentencepiece

    data = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for path in train for line in read_lines(path)),
            model_writer=data,
            vocab_size=pieces,
            model_type="bpe",
            character_coverage=1.0,
            # The text is already normalised; a second opinion would change the references.
            normalization_rule_name="identity",
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).replace("\n", " ").rpartition("] ")[2]
        raise UserError(
            f"--merges {pieces}: sentencepiece cannot learn that many pieces: {reason}"
        ) from None
    model.write_bytes(data.getvalue())


def make_segmenter(
    method: str, model: Path, vocabulary: Path | None = None, threshold: int = 0
) -> Callable[[str], str]:
    """Build the function from a tokenised line to its subwords, joined by spaces.

    With a threshold, subwords that ``vocabulary`` (``vocab.LANG``, as :func:`write_vocabulary`
    writes it) has less often are split up again, so that one side does not get units which were
    only ever seen on the other (bpe only).
    """
    if method == "sentencepiece":
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_proto=model.read_bytes())
        return lambda line: " ".join(processor.encode(line, out_type=str))

    from subword_nmt.apply_bpe import BPE, read_vocabulary

    allowed = None
    if threshold > 0:
        with open(vocabulary, encoding="utf-8") as file:
            allowed = read_vocabulary(file, threshold)
        if not allowed:  # to subword-nmt, an empty set means no restriction
            most = next(read_lines(vocabulary)).rpartition(" ")[2]
            raise UserError(
                f"--vocabulary-threshold {threshold}: no subword of {vocabulary.suffix[1:]} is "
                f"that frequent; give at most {most}"
            )
    with open(model, encoding="utf-8") as file:
        bpe = BPE(file, vocab=allowed)
    return bpe.process_line


def write_vocabulary(text: Path, vocabulary: Path) -> None:
    """Write the subwords of a segmented file with their counts, most frequent first."""
    counts = Counter(piece for line in read_lines(text) for piece in line.split())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    write_lines(vocabulary, (f"{piece} {count}" for piece, count in ordered))
