"""Multi30k task 1: the small corpus that every model here is tried on."""

from diverse_mha.corpora.corpus import Corpus
from diverse_mha.corpora.published import PublishedFile

_FOLDERS = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw",
)
# By split: name, lines, sha256 of the German and of the English text.
_FILES = {
    "train": (
        *("train", 29000),
        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    ),
    "valid": (
        *("val", 1014),
        "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    ),
    "test": (
        *("test_2016_flickr", 1000),
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    ),
}


def _file(name: str, lines: int, sha256: str) -> PublishedFile:
    urls = tuple(f"{folder}/{name}.gz" for folder in _FOLDERS)
    return PublishedFile(f"{name}.gz", urls, text_checksum=f"sha256:{sha256}", lines=lines)


MULTI30K = Corpus(
    name="multi30k",
    about="Multi30k task 1, German-English image captions: 29,000 pairs, 1.3 MB to download, "
    "for research only (Flickr30k terms)",
    source="de",
    target="en",
    files={
        split: ((_file(f"{name}.de", lines, german), _file(f"{name}.en", lines, english)),)
        for split, (name, lines, german, english) in _FILES.items()
    },
    merges=8000,
)
