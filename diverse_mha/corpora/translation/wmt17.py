"""WMT17 German-English (Yun et al. 2021) and Chinese-English (Li et al. 2018, 2021).

German-English. The paper draws 2.5M pairs at random from the training set and takes "the whole"
sets for valid, 16,573 pairs, and test, 3,004. 16,573 is newssyscomb2009 with newstest2008 to
newstest2013, and 3,004 is newstest2017. The rest follows its IWSLT17 setting: a BPE vocabulary of
16,384. Left open, and decided here: the training set is all that the task had (Europarl v7, Common
Crawl, News Commentary v12, Rapid 2016); the draw is from pairs with text on both sides, by a seed,
before the length filter (250 tokens, ratio 9), which then drops a few; Moses tokenisation with
normalisation; 16,384 joint sentencepiece BPE pieces and one dictionary.

Chinese-English. li2021 takes all of the parallel data "with maximum length limited to 50", about
20.6M pairs (li2018: 20M), newsdev2017 as valid, newstest2017 as test, and 32K merges. Left open,
and decided here: the data are News Commentary v12, UN v1.0 and the CWMT corpora of the task; the
limit is 50 words on either side; the ratio at most 9; Chinese words are cut by jieba; English by
Moses with normalisation; 32,000 merges are learned for each language, with separate dictionaries,
since the scripts share nothing. li2021's 108M parameters of the base model fit that: embeddings
of 124.8 thousand rows.
"""

from diverse_mha.corpora.corpus import Corpus, Pair
from diverse_mha.corpora.counts import PaperCount
from diverse_mha.corpora.published import Member, PublishedFile
from diverse_mha.corpora.translation.un import UN_EN_ZH, un_train
from diverse_mha.corpora.translation.wmt_files import (
    COMMON_CRAWL,
    DEV,
    EUROPARL,
    NEWS_COMMENTARY_12,
    RAPID_2016,
    segments,
    texts,
)

WMT17_DE_EN = Corpus(
    name="wmt17-de-en",
    about="WMT17 German-English: 2.5 million pairs drawn from 5.9 million, 1.9 GB to download, "
    "for research",
    source="de",
    target="en",
    files={
        "train": (
            texts(EUROPARL, "training/europarl-v7.de-en", "de", "en"),
            texts(COMMON_CRAWL, "commoncrawl.de-en", "de", "en"),
            texts(NEWS_COMMENTARY_12, "training/news-commentary-v12.de-en", "de", "en"),
            texts(RAPID_2016, "rapid2016.de-en", "de", "en"),
        ),
        "valid": tuple(
            texts(DEV, f"dev/{name}", "de", "en")
            for name in (
                *("newssyscomb2009", "news-test2008"),
                *(f"newstest{year}" for year in range(2009, 2014)),
            )
        ),
        "test": (segments("newstest2017-deen", "de", "en"),),
    },
    sample=2_500_000,
    subwords="sentencepiece",
    merges=16_384,
    unpacked=1_800_000_000,
    text=800_000_000,
    counts=(
        PaperCount("yun2021", "train", "2.5M"),
        PaperCount("yun2021", "valid", "16,573"),
        PaperCount("yun2021", "test", "3,004"),
    ),
    licence="free for research; each corpus has terms of its own (statmt.org/wmt17)",
)

_CWMT = (
    ("casia2015", 98159063, "c939f1528f96c419e9bbffb9caad869616a969e7704ffac896e245a02aff59a9"),
    ("casict2011", 166957775, "606adc0ccc5d8fc7c47f8589991286616342a1a379a571ce3038918731ae0182"),
    ("casict2015", 106836569, "eef8e25b297c1aff12ab24719247d3588e756d7a4e2c30d4d34fcb4d05ab1050"),
    ("datum2015", 100118018, "654afce6731485c40ce856514ab80cd2bfd836126bcaf48cdb911ebc32b021a4"),
    ("datum2017", 99278067, "737455c139596f4abf3b1da73bc38932b3ef9534549328eff47d867e29950ed2"),
    ("neu2017", 148681171, "9f63020b6990cde85f5387b745e3ae37f1d6a49848b90a49bae28219fb65395f"),
)


def _cwmt(name: str, size: int, sha256: str) -> Pair:
    archive = PublishedFile(
        f"{name}.zip",
        urls=(
            f"ftp://cwmt-wmt:cwmt-wmt@nlp.nju.edu.cn/parallel/{name}.zip",
            f"https://huggingface.co/datasets/wmt/wmt18/resolve/main/cwmt-wmt/{name}.zip",
        ),
        size=size,
        checksum=f"sha256:{sha256}",
    )
    # The Chinese files end in _ch or in _cn; casict2011 and datum2017 have several.
    return Member(archive, f"{name}/*_c[hn].txt"), Member(archive, f"{name}/*_en.txt")


WMT17_ZH_EN = Corpus(
    name="wmt17-zh-en",
    about="WMT17 Chinese-English: 20.6 million pairs, 2.3 GB to download, for research",
    source="zh",
    target="en",
    files={
        "train": (
            texts(NEWS_COMMENTARY_12, "training/news-commentary-v12.zh-en", "zh", "en"),
            un_train(UN_EN_ZH, "zh"),
            *(_cwmt(*archive) for archive in _CWMT),
        ),
        "valid": (segments("newsdev2017-zhen", "zh", "en"),),
        "test": (segments("newstest2017-zhen", "zh", "en"),),
    },
    max_length=50,
    merges=32_000,
    joint_subwords=False,
    joined=False,
    unpacked=7_200_000_000,
    text=7_200_000_000,
    counts=(
        PaperCount("li2018", "train", "20M"),
        PaperCount("li2021", "train", "20.6M", "words depend on the segmenter"),
        PaperCount("newsdev2017", "valid", "2,002"),
        PaperCount("newstest2017", "test", "2,001"),
    ),
    licence="free for research; each corpus has terms of its own (statmt.org/wmt17)",
)
