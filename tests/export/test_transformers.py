"""Models exported to the transformers library have the same logits and subwords."""

import json
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import subwords
from diverse_mha.corpora.prepared import Preparation, Side
from diverse_mha.corpora.text import write_lines
from diverse_mha.export import transformers
from diverse_mha.export.fast_tokenizer import write_tokenizer
from diverse_mha.models.stock_form import stock_state
from tests.corpora.writing import SENTENCES
from tests.export.test_ctranslate import PLAIN, side
from tests.models.test_stock_form import LM, checkpoint
from tests.toy import SMALL

pytest.importorskip("transformers")


def stock(arch: str = "transformer_disagree", **options):
    state = checkpoint(arch, SMALL | options)
    made = stock_state("x.pt", state, namespace=True)
    made["args"].source_lang, made["args"].target_lang = "de", "en"
    return made


@pytest.mark.parametrize("sharing", [{"share_all_embeddings": True}, {"encoder_layers": 1}])
def test_logits_equal_those_of_fairseq(sharing):
    from fairseq.models.transformer import TransformerModel

    made = stock(**sharing)
    words = made["model"]["encoder.embed_tokens.weight"].size(0)
    task = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())
    for dictionary in (task.source_dictionary, task.target_dictionary):
        for number in range(words - 4):
            dictionary.add_symbol(str(number))
    theirs = TransformerModel.build_model(made["args"], task)
    theirs.load_state_dict(made["model"])
    theirs.eval()
    ours = transformers.build("x.pt", made["args"], made["model"], (words, words))
    source = torch.tensor([[5, 6, 7, 2], [1, 8, 9, 2]])
    before = torch.tensor([[2, 5, 6], [2, 7, 4]])
    with torch.no_grad():
        expected = theirs(source, None, before)[0]
        mask = (source != 1).long()
        found = ours(source, attention_mask=mask, decoder_input_ids=before, use_cache=False).logits
    assert (found - expected).abs().max() < 1e-5


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("transformer_disagree", {"encoder_normalize_before": True}, "--encoder-normalize-before"),
        ("transformer_disagree", {"decoder_learned_pos": True}, "--decoder-learned-pos True: not"),
        (
            "transformer_disagree",
            {"activation_fn": "gelu_accurate"},
            "--activation-fn gelu_accurate",
        ),
        ("transformer_lm_disagree_tiny", LM, "is a language model; give a translation"),
    ],
)
def test_options_unknown_to_fsmt_are_refused(arch, options, message):
    made = stock_state(
        "x.pt", checkpoint(arch, SMALL | options if "lm" not in arch else options), namespace=True
    )
    with pytest.raises(UserError, match=f"^x.pt: {message}"):
        transformers._check("x.pt", made["args"])


def test_tokenizer_vocabulary_equals_the_dictionary(tmp_path):
    from transformers import AutoTokenizer

    words = Dictionary()
    for word in ("ein", "H@@", "und", ","):
        words.add_symbol(word)
    codes = tmp_path / "codes.de"
    codes.write_text("#version: 0.2\ne i\nei n</w>\nu n\nun d</w>\n")
    source = side(model=codes)
    message = write_tokenizer(tmp_path, (source, source), ("de", "en"), (words, words))
    assert message == ", which splits words at hyphens, unlike the data"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "fsmt"}))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer("ein Hund, ein")["input_ids"]
    assert words.string(torch.tensor(ids)) == "ein H@@ und , ein"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "ein Hund, ein"
    ids = tokenizer(f"ein {SPECIAL}")["input_ids"]
    assert {words.bos(), words.pad()}.isdisjoint(ids) and ids.index(words.eos()) == len(ids) - 1


LINES = [line for lines in SENTENCES.values() for line in lines]
# Text that looks like special tokens.
SPECIAL = "a</s>b <s> x<s>y <unk>,<pad> </s> <unk> z<pad>"


@pytest.fixture
def pieces(tmp_path):
    """Return a side of a corpus of raw text in all writing systems, and its dictionary of pieces.

    The folder ``tmp_path`` has the SentencePiece model and the dictionary.
    """
    lines = [unicodedata.normalize("NFC", line) for line in LINES]
    write_lines(tmp_path / "text", [*lines, *[SPECIAL] * 20])
    model = tmp_path / "sentencepiece.model"
    subwords.learn_pieces([tmp_path / "text"], model, 2000, escape=True)
    write_lines(tmp_path / "dict.de.txt", subwords.dictionary(model, []))
    made = Preparation({}, PLAIN | {"tokeniser": "none"}, "sentencepiece", "sentencepiece")
    return Side("de", made, model), Dictionary.load(str(tmp_path / "dict.de.txt"))


def test_tokenizer_equals_sentencepiece_on_raw_text(pieces, tmp_path):
    from transformers import AutoTokenizer

    side, words = pieces
    assert write_tokenizer(tmp_path, (side, side), ("de", "en"), (words, words)) == ""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "fsmt"}))
    tokenizer, encode = AutoTokenizer.from_pretrained(tmp_path), side.encode()
    for line in (*LINES, SPECIAL, "", " so\t weit\u3000er ", "\u2603\u2603 unseen \u2603y"):
        ids = tokenizer(line)["input_ids"]
        assert ids == words.encode_line(encode(line), add_if_not_exist=False).tolist()
        if words.unk() not in ids:
            plain = unicodedata.normalize("NFC", " ".join(line.split()))
            assert tokenizer.decode(ids, skip_special_tokens=True) == plain


@pytest.mark.parametrize("reason", ["tokens", "separate", "lacks"])
def test_vocabulary_is_exported_without_a_tokenizer(pieces, tmp_path, monkeypatch, reason):
    side, words = pieces
    lines = (tmp_path / "dict.de.txt").read_text().splitlines(keepends=True)
    (tmp_path / "dict.en.txt").write_text("".join(lines if reason == "tokens" else lines[1:]))
    if reason == "tokens":
        side = side._replace(made=side.made._replace(tokeniser=PLAIN))
    if reason == "lacks":
        (tmp_path / "dict.de.txt").write_text("".join(lines[1:]))
    message = {
        "tokens": "transformers has no tokenizer for sentencepiece after Moses' rules",
        "separate": "source and target have separate dictionaries",
        "lacks": f"the dictionary lacks piece {lines[0].split()[0]} of sentencepiece's model",
    }[reason]
    monkeypatch.setattr(transformers, "read_side", lambda data, code: side)
    made = stock(share_all_embeddings=True)
    monkeypatch.setattr(transformers, "stock_state", lambda *_, **__: made)
    monkeypatch.setattr(
        transformers, "build", lambda *_: SimpleNamespace(save_pretrained=Path.mkdir)
    )
    done = transformers.convert("x.pt", {}, str(tmp_path), tmp_path / "out")
    files = "dict.de.txt, dict.en.txt, sentencepiece.model"
    assert done == f"for transformers, without a tokenizer: {message}; its vocabulary is in {files}"
    assert len(list((tmp_path / "out").iterdir())) == 3
