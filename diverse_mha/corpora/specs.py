"""The corpora that the prepare command knows, each as one entry of :data:`CORPORA`."""

from collections.abc import Mapping

from diverse_mha.corpora.corpus import SPLITS, Corpus
from diverse_mha.corpora.multi30k import MULTI30K
from diverse_mha.corpora.translation.iwslt import IWSLT14, IWSLT17
from diverse_mha.corpora.translation.un import UN_RU_EN, UN_ZH_EN
from diverse_mha.corpora.translation.wmt14 import WMT14, WMT14_GOOGLE
from diverse_mha.corpora.translation.wmt17 import WMT17_DE_EN, WMT17_ZH_EN

__all__ = ["CORPORA", "SPLITS", "Corpus"]

DEMO = Corpus(
    name="demo",
    about="the generated corpus that comes with the project: two small invented languages, "
    "Lumi (lm) and Qorun (qo); needs no network",
    source="lm",
    target="qo",
    generated=True,
    moses_languages=("en", "en"),
    merges=600,
)

CORPORA: Mapping[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        DEMO,
        MULTI30K,
        IWSLT14,
        IWSLT17,
        WMT14,
        WMT14_GOOGLE,
        WMT17_DE_EN,
        WMT17_ZH_EN,
        UN_RU_EN,
        UN_ZH_EN,
    )
}
