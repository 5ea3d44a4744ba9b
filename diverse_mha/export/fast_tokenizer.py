"""Writes tokenizers of transformers for exported models: BPE (subword-nmt) or sentencepiece."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from fairseq.data import Dictionary

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import subwords
from diverse_mha.corpora.prepared import Side


def write_tokenizer(
    folder: Path,
    sides: tuple[Side, Side],
    languages: tuple[str, str],
    words: tuple[Dictionary, ...],
) -> str:
    """Write the data's tokenizer into ``folder``; return a remark for the user, or "".

    Raises:
        UserError: transformers has no such tokenizer.
    """
    source, target = sides
    if source.made.method == "bpe":
        _write_bpe(folder, source, languages, words)
        exact = source.made.tokeniser["aggressive"]
        return "" if exact else ", which splits words at hyphens, unlike the data"
    if source.made.tokeniser["tokeniser"] != "none":
        raise UserError("transformers has no tokenizer for sentencepiece after Moses' rules")
    if source.model != target.model or words[0].symbols != words[1].symbols:
        raise UserError("source and target have separate dictionaries")
    _write_sentencepiece(folder, source, words[0])
    return ""


def write_vocabulary(
    folder: Path, data: str, languages: Sequence[str], sides: Sequence[Side]
) -> list[str]:
    """Copy the dictionaries and sentencepiece models; return their file names."""
    files = [Path(data, f"dict.{code}.txt") for code in languages]
    files += [side.model for side in sides]
    for path in dict.fromkeys(files):
        shutil.copy(path, folder)
    return list(dict.fromkeys(path.name for path in files))


def _bpe_vocabulary(words: Dictionary) -> dict[str, int]:
    """Return FSMT's vocabulary, which marks ends of words instead of continuations."""
    made = {}
    for number, word in enumerate(words.symbols):
        if number >= words.nspecial:
            word = word.removesuffix("@@") if word.endswith("@@") else f"{word}</w>"
        made[word] = number
    return made


def _write_bpe(
    folder: Path, source: Side, languages: tuple[str, str], words: tuple[Dictionary, ...]
) -> None:
    for name, dictionary in zip(("vocab-src.json", "vocab-tgt.json"), words, strict=True):
        text = json.dumps(_bpe_vocabulary(dictionary), ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(source.model, folder / "merges.txt")
    config = {
        "tokenizer_class": "FSMTTokenizer",
        "do_lower_case": source.made.tokeniser["lowercase"],
        "split_special_tokens": True,  # "<s>" in a text is no special token
    }
    config["langs"] = list(languages)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _merges(model: Path, vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Return the merges of a sentencepiece BPE model in order.

    sentencepiece merges the two neighbours whose joint piece has the best score. So every split of
    a piece into two pieces is a merge.
    """
    from sentencepiece import SentencePieceProcessor

    pieces = SentencePieceProcessor(model_file=str(model))
    text = (n for n in range(len(pieces)) if not (pieces.is_control(n) or pieces.is_unknown(n)))
    scores = {pieces.id_to_piece(n): pieces.get_score(n) for n in text}
    merges = []
    for piece in sorted(scores, key=lambda piece: scores[piece], reverse=True):
        if piece not in vocabulary:
            raise UserError(f"the dictionary lacks piece {piece} of sentencepiece's model")
        parts = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        merges += [pair for pair in parts if scores.keys() >= set(pair)]
    return merges


def _write_sentencepiece(folder: Path, side: Side, words: Dictionary) -> None:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(words.symbols)}
    merges = _merges(side.model, vocabulary)
    bpe = models.BPE(vocabulary, merges, unk_token=words.unk_word, fuse_unk=True)
    made = Tokenizer(bpe)
    steps = [
        normalizers.NFC(),
        normalizers.Replace(Regex(r"[\x00-\x1f\x7f-\x9f\s]+"), " "),
        normalizers.Strip(),
    ]
    steps += [normalizers.Lowercase()] if side.made.tokeniser["lowercase"] else []
    if not subwords.reads_blanks(side.made.method, side.model):
        steps += [normalizers.Replace(*pair) for pair in subwords.ESCAPES.items()]
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    restored = [decoders.Replace(escape, text) for text, escape in subwords.ESCAPES.items()]
    made.decoder = decoders.Sequence([decoders.Metaspace(), *restored])
    end = words.eos_word
    made.post_processor = TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, words.eos())]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=words.bos_word,
        eos_token=end,
        pad_token=words.pad_word,
        unk_token=words.unk_word,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,  # "<s>" in a text is no special token
    ).save_pretrained(folder)
