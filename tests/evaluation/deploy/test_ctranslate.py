"""The script beside a model of CTranslate2's; the conversion is tested in integration/."""

from pathlib import Path

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy.ctranslate import convert, translation_script
from diverse_mha.evaluation.deploy.prepared_text import Side
from tests.evaluation.deploy.test_stock_form import LM, checkpoint
from tests.toy import SMALL

PLAIN = {
    "normalise": False,
    "straight_apostrophes": False,
    "aggressive": False,
    "lowercase": False,
    "tokeniser": "moses",
    "normal_form": "NFC",
    "whole_letters": True,
}


def side(moses: str = "de", method: str = "bpe", threshold: int = 0, **options) -> Side:
    model = {"bpe": "codes.de", "sentencepiece": "sentencepiece.model"}[method]
    segmenter = {"method": method, "model": Path("bpe", model), "threshold": threshold}
    segmenter["vocabulary"] = Path("bpe/vocab.de")
    return Side("de", moses, "subword_nmt", PLAIN | options, segmenter)


@pytest.mark.parametrize(
    "source, expected",
    [
        (side(), ["here / 'codes.de'", "vocab=None", "aggressive_dash_splits=False"]),
        (side(threshold=50), ["read_vocabulary(open(here / 'vocab.de', encoding='utf-8'), 50)"]),
        (side(method="sentencepiece"), ["here / 'sentencepiece.model'", "import sentencepiece"]),
        (side(normalise=True), ["normalise(re.sub("]),
        (side(aggressive=True, lowercase=True), ["splits=True", "line.lower()"]),
        (side(straight_apostrophes=True), ["line.replace('\\u2019'"]),
        (side(whole_letters=False), ["letters.make_tokeniser('de', False)"]),
        (side(tokeniser="none"), ['" ".join(line.split())', '" ", line)) for line']),
    ],
)
def test_the_script_does_what_the_data_says_and_is_python(source, expected):
    script = translation_script(source, side("en"), (1024, 100))
    compile(script, "translate.py", "exec")
    for text in expected:
        assert text in script or text.replace("import ", ", ") in script
    assert "max_decoding_length=99" in script, "more the decoder has no positions for"
    assert "diverse_mha" not in script and "make_detokeniser('en')" in script


def test_chinese_is_refused():
    with pytest.raises(UserError, match="Chinese source text is not supported"):
        translation_script(side("zh"), side("en"), (1024, 1024))


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("transformer_disagree", {"no_cross_attention": True}, "no decoder without attention"),
        ("transformer_disagree", {"decoder_output_dim": 8}, "no output other than of .* 16; use"),
        ("transformer_disagree", {"encoder_layers": 0}, "encoder-layers 0: CTranslate2 has no"),
        ("transformer_disagree", {"decoder_layers": 0}, "decoder-layers 0: CTranslate2 has no"),
        ("transformer_lm_disagree_tiny", {"decoder_output_dim": 8}, "-dim 8: CTranslate2 has no"),
    ],
)
def test_what_its_converter_stumbles_over_is_refused(arch, options, message, tmp_path):
    """It raised errors of its own, and without layers wrote a model that it cannot load."""
    pytest.importorskip("ctranslate2")
    shape = LM if "_lm" in arch else SMALL
    with pytest.raises(UserError, match=f"^x.pt: its --.*{message}"):
        convert("x.pt", checkpoint(arch, shape | options), "data", tmp_path / "model", None)
    assert not list(tmp_path.iterdir())
