"""United Nations Parallel Corpus v1.0, Russian-English and Chinese-English (Yun et al. 2021).

The paper draws 2.5M pairs at random from each training set and takes the official sets of 4,000
pairs for valid and test; the rest follows its IWSLT17 setting, a BPE vocabulary of 16,384. Left
open, and decided here: the draw is from pairs with text on both sides, by a seed, before the length
filter (250 tokens, ratio 9), which then drops a few; Moses tokenisation with normalisation,
Chinese words cut by jieba; 16,384 sentencepiece BPE pieces for each language, with separate
dictionaries, since the scripts share nothing.

The archive of the official sets is not among those with a known checksum: its sha256 is printed,
and each file must have 4,000 lines.
"""

from diverse_mha.corpora.corpus import Corpus, Pair
from diverse_mha.corpora.counts import PaperCount
from diverse_mha.corpora.published import Member, PublishedFile

UN_TERMS = "public domain; name the UN as the source, cite Ziemski et al. 2016"


def _train_archive(language: str, size: int, sha256: str) -> PublishedFile:
    name = f"UNv1.0.en-{language}.tar.gz"
    return PublishedFile(
        name,
        urls=(f"https://storage.googleapis.com/tfds-data/downloads/uncorpus/{name}",),
        size=size,
        checksum=f"sha256:{sha256}",
    )


UN_EN_ZH = _train_archive(
    "zh", 1386685703, "6f9c6401d5f0a49b20661324570d99fb86822d82f974748a361e19b9b886dd49"
)
UN_EN_RU = _train_archive(
    "ru", 2453705236, "f998570e7d60b87bf8648e50e854f150493eff4d7cf1133cf4781811bbe96566"
)
UN_SETS = PublishedFile(
    "UNv1.0.testsets.tar.gz",
    urls=(
        "https://www.un.org/dgacm/sites/www.un.org.dgacm/files/files/UNCORPUS/UNv1.0.testsets.tar.gz",
        "https://stuncorpusprod.blob.core.windows.net/corpusfiles/UNv1.0.testsets.tar.gz",
        "https://conferences.unite.un.org/UNCORPUS/en/DownloadFile?filename=UNv1.0.testsets.tar.gz",
    ),
)


def un_train(archive: PublishedFile, language: str) -> Pair:
    """Return the training text of a language and English."""
    stem = f"en-{language}/UNv1.0.en-{language}"
    return Member(archive, f"{stem}.{language}"), Member(archive, f"{stem}.en")


def _set(name: str, language: str) -> Pair:
    stem = f"testsets/{name}/UNv1.0.{name}"
    return Member(UN_SETS, f"{stem}.{language}", lines=4000), Member(
        UN_SETS, f"{stem}.en", lines=4000
    )


def _un(language: str, about: str, archive: PublishedFile, **sizes: int) -> Corpus:
    return Corpus(
        name=f"un-{language}-en",
        about=about,
        source=language,
        target="en",
        files={
            "train": (un_train(archive, language),),
            "valid": (_set("devset", language),),
            "test": (_set("testset", language),),
        },
        sample=2_500_000,
        subwords="sentencepiece",
        merges=16_384,
        joint_subwords=False,
        joined=False,
        unsized=15_000_000,
        counts=(
            PaperCount("yun2021", "train", "2.5M"),
            PaperCount("yun2021", "valid", "4,000"),
            PaperCount("yun2021", "test", "4,000"),
        ),
        licence=UN_TERMS,
        **sizes,
    )


UN_RU_EN = _un(
    "ru",
    "UN corpus v1.0 Russian-English: 2.5 million pairs drawn from 23 million, 2.5 GB to "
    "download, public domain",
    UN_EN_RU,
    unpacked=11_000_000_000,
    text=1_300_000_000,
)
UN_ZH_EN = _un(
    "zh",
    "UN corpus v1.0 Chinese-English: 2.5 million pairs drawn from 16 million, 1.4 GB to "
    "download, public domain",
    UN_EN_ZH,
    unpacked=5_000_000_000,
    text=900_000_000,
)
