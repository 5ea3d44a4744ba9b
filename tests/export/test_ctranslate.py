"""Export to CTranslate2: its translation script, reordered heads and refused models.

Conversion is tested in tests/integration/.
"""

import json
import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import torch

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.prepared import Preparation, Side
from diverse_mha.corpora.subwords import learn_pieces
from diverse_mha.corpora.text import write_lines
from diverse_mha.export import plain_text
from diverse_mha.export.ctranslate import convert, head_first, text_options
from tests.corpora.test_own import CODES
from tests.corpora.writing import SENTENCES
from tests.models.test_stock_form import LM, checkpoint
from tests.toy import build_ours, toy_batch, toy_task

PLAIN = {
    "normalise": False,
    "straight_apostrophes": False,
    "aggressive": False,
    "lowercase": False,
    "tokeniser": "moses",
}


def side(moses: str = "de", model: Path = Path("codes"), **options) -> Side:
    return Side(moses, Preparation({}, PLAIN | options, "subword_nmt", "bpe"), model)


@pytest.mark.parametrize(
    "options",
    [{}, {"normalise": True}, {"aggressive": True, "lowercase": True}]
    + [{"straight_apostrophes": True}, {"tokeniser": "none"}],
)
def test_translate_script_tokenises_and_detokenises_like_the_preparation(
    options, tmp_path, monkeypatch
):
    monkeypatch.setattr(plain_text, "HERE", tmp_path)
    (tmp_path / "codes").write_text(CODES)
    source, target = side(model=tmp_path / "codes", **options), side("en", **options)
    made = text_options(source, target, (1024, 100))
    assert made["longest_target"] == 99, "one of 100 positions is left for </s>"
    encode, decode = plain_text.encoder(made), plain_text.decoder(made)
    for line in ("Der Mann „läuft“ hin-her.", " it\u2019s\tZu\u0308rich, & so", ""):
        assert encode(line) == source.encode()(line).split()
        tokens = source.tokenise()(line)
        assert decode(encode(line)) == target.detokenise()(tokens).strip()


@pytest.mark.parametrize(
    ("language", "line", "plain"),
    [
        ("ar", "نعم ، هذا صحيح ؟", "نعم، هذا صحيح؟"),
        ("el", "Ναι , αλήθεια \u037e", "Ναι, αλήθεια\u037e"),
        ("ja", "今日 は 、 「 猫 」 。", "今日は、「猫」。"),
        ("de", "Ja , so ( ist ) es .", "Ja, so (ist) es."),
    ],
)
def test_translate_script_joins_the_punctuation_of_other_scripts(language, line, plain):
    """``text.json`` has the punctuation: the script must work without this package."""
    target = side(language)
    made = json.loads(json.dumps(text_options(side("en"), target, (9, 9))))
    assert plain_text.decoder(made)(line.split()) == target.detokenise()(line) == plain


def test_translate_script_reads_and_writes_utf_8_in_every_locale(tmp_path):
    shutil.copy(plain_text.__file__, tmp_path / "translate.py")
    (tmp_path / "codes").write_text(CODES)
    made = text_options(*[side(model=tmp_path / "codes", tokeniser="none")] * 2, (99, 99))
    (tmp_path / "text.json").write_text(json.dumps(made))
    (tmp_path / "ctranslate2.py").write_text(ECHO)
    plain = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    environment = {**os.environ, **plain, "PYTHONPATH": str(tmp_path)}

    def call(text: bytes):
        command = [sys.executable, str(tmp_path / "translate.py")]
        return subprocess.run(command, input=text, capture_output=True, env=environment)

    text = "größer\n\nنعم\r\n".encode()
    done = call(b"\xef\xbb\xbf" + text)
    assert (done.stdout, done.stderr) == (text.replace(b"\r", b""), b"")
    done = call(b"a\ngr\xf6\xdfer\n")
    assert done.stderr.startswith(b"line 2: is not UTF-8 text (") and done.returncode == 1


ECHO = """
from types import SimpleNamespace

class Translator:
    def __init__(self, path):
        pass

    def translate_batch(self, lines, **options):
        return [SimpleNamespace(hypotheses=[line]) for line in lines]
"""


def test_translate_script_accepts_raw_text_in_any_writing_system(tmp_path, monkeypatch):
    monkeypatch.setattr(plain_text, "HERE", tmp_path)
    lines = [line for lines in SENTENCES.values() for line in lines]
    write_lines(tmp_path / "text", [unicodedata.normalize("NFC", line) for line in lines])
    model = tmp_path / "sentencepiece.model"
    learn_pieces([tmp_path / "text"], model, 2000, escape=True)
    made = Preparation({}, PLAIN | {"tokeniser": "none"}, "sentencepiece", "sentencepiece")
    source = Side("xx", made, model)
    settings = text_options(source, source, (1024, 1024))
    encode, decode = plain_text.encoder(settings), plain_text.decoder(settings)
    for line in lines:
        assert encode(line) == source.encode()(line).split()
        assert decode(encode(line)) == unicodedata.normalize("NFC", line)


def test_reordering_heads_keeps_the_output():
    model = build_ours().double().eval()
    state = model.state_dict()
    moved = head_first(state, 2, 3, model.heads["cross"])
    attention = "decoder.layers.1.encoder_attn."
    changed = {name for name in state if not torch.equal(moved[name], state[name])}
    assert {name.removeprefix(attention) for name in changed} == {
        f"{x}_proj.{kind}" for x in "qkv" for kind in ("weight", "bias")
    } | {"out_proj.weight"}
    batch = toy_batch()["net_input"]
    found = []
    for parameters in (state, moved):
        model.load_state_dict(parameters)
        with torch.no_grad():
            output, extra = model(**batch, return_head_states={"cross": ("weights",)})
        found.append((output, extra["head_states"]["cross"][1].weights))
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1][:, [2, 0, 1, 3]], found[1][1])


def test_chinese_is_refused():
    with pytest.raises(UserError, match="Chinese text is not supported"):
        text_options(side("zh"), side("en"), (1024, 1024))


def test_models_that_ctranslate2_cannot_convert_are_refused(tmp_path):
    pytest.importorskip("ctranslate2")
    state = checkpoint("transformer_lm_disagree_tiny", LM | {"decoder_output_dim": 8})
    toy_task().source_dictionary.save(str(tmp_path / "dict.txt"))
    with pytest.raises(UserError, match="^x.pt: CTranslate2 cannot convert it .* --format fairseq"):
        convert("x.pt", state, str(tmp_path), tmp_path / "model", None)
    assert not (tmp_path / "model").exists()
