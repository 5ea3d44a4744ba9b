"""The script beside a model of CTranslate2's; the conversion is tested in integration/."""

from pathlib import Path

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy.ctranslate import translation_script
from diverse_mha.evaluation.deploy.prepared_text import Side

PLAIN = {
    "normalise": False,
    "straight_apostrophes": False,
    "aggressive": False,
    "lowercase": False,
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
    ],
)
def test_the_script_does_what_the_data_says_and_is_python(source, expected):
    script = translation_script(source, side("en"))
    compile(script, "translate.py", "exec")
    for text in expected:
        assert text in script or text.replace("import ", ", ") in script
    assert "diverse_mha" not in script and "MosesDetokenizer('en')" in script


def test_chinese_is_refused():
    with pytest.raises(UserError, match="Chinese source text is not supported"):
        translation_script(side("zh"), side("en"))
