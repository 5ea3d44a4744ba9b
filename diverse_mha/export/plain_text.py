"""Translates plain text with the model in this folder: ``python translate.py < TEXT``.

``export --format ctranslate2`` copies this file. It needs ctranslate2, subword-nmt or
sentencepiece, and sacremoses if the model's data was tokenised. ``text.json`` describes the
preparation of the data.
"""

import io
import json
import re
import sys
import unicodedata
from pathlib import Path

HERE = Path(__file__).parent
# Noncharacters with which sentencepiece models of data-prep replace reserved characters.
ESCAPES = {0xFDD0: "\u2581", 0xFDD1: "\u2585"}


def encoder(made: dict):
    """Return a function that splits a line into subwords, as in the model's data."""
    if made["method"] == "bpe":
        from subword_nmt.apply_bpe import BPE

        with open(HERE / made["model"], encoding="utf-8") as codes:
            cut = BPE(codes).segment_tokens
    else:
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor(model_file=str(HERE / made["model"]))

        def cut(tokens):
            return processor.encode(" ".join(tokens), out_type=str)

    normalise = tokenise = None
    if made["tokeniser"] == "moses":
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        normalise = MosesPunctNormalizer(made["source"]).normalize
        tokenise = MosesTokenizer(made["source"]).tokenize

    def encode(line: str) -> list[str]:
        line = unicodedata.normalize("NFC", line)
        if made["straight_apostrophes"]:
            line = line.replace("\u2019", "'")
        if made["normalise"] or tokenise is None:
            line = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", line)
        if normalise is not None and tokenise is not None:
            line = normalise(line) if made["normalise"] else line
            line = str(tokenise(line, aggressive_dash_splits=made["aggressive"], return_str=True))
        return cut((line.lower() if made["lowercase"] else line).split())

    return encode


def decoder(made: dict):
    """Return a function that joins subwords to a line of plain text."""
    rules, punctuation = None, made["punctuation"]
    if made["tokeniser"] == "moses":
        from sacremoses import MosesDetokenizer

        rules = MosesDetokenizer(made["target"])
        rules.IS_PUNCT = re.compile(punctuation["closing"])

    def decode(pieces: list[str]) -> str:
        if made["method"] == "bpe":
            text = (" ".join(pieces) + " ").replace("@@ ", "")
        else:
            text = "".join(pieces).replace("\u2581", " ").translate(ESCAPES)
        if rules is not None:
            text = rules.detokenize(text.split())
            text = re.sub(punctuation["wide"], r"\1", text) if punctuation["wide"] else text
        return text.strip()

    return decode


def read(stream) -> list[str]:
    """Return the lines of a binary stream of UTF-8, without line ends and byte order mark."""
    lines = []
    for number, line in enumerate(stream, 1):
        try:
            lines.append(line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            sys.exit(f"line {number}: is not UTF-8 text ({error.reason}); convert it")
    return lines


def main() -> None:
    """Translate standard input."""
    import ctranslate2

    made = json.loads((HERE / "text.json").read_text(encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    tokenised, decode = [*map(encoder(made), read(sys.stdin.buffer))], decoder(made)
    for number, line in enumerate(tokenised, 1):
        if len(line) > made["longest_source"]:
            at_most = f"but the model reads at most {made['longest_source']}"
            sys.exit(f"line {number}: {len(line)} subwords, {at_most}; split the line")
    translations = ctranslate2.Translator(str(HERE)).translate_batch(
        tokenised,
        beam_size=5,
        max_batch_size=4000,
        batch_type="tokens",
        max_input_length=0,
        max_decoding_length=made["longest_target"],
    )
    for source, best in zip(tokenised, translations, strict=True):
        print(decode(best.hypotheses[0]) if source else "")


if __name__ == "__main__":
    main()
