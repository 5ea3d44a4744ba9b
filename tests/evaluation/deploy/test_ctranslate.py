"""The script beside a model of CTranslate2's; the conversion is tested in integration/."""

from pathlib import Path

import pytest
import torch

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy.ctranslate import convert, head_first, translation_script
from diverse_mha.evaluation.deploy.prepared_text import Side
from tests.evaluation.deploy.test_stock_form import LM, checkpoint
from tests.toy import SMALL, build_ours, toy_batch

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


def test_a_head_that_comes_first_changes_no_output():
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
