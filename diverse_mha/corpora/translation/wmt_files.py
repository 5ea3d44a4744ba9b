"""The published archives that several WMT corpora share, and how their members are named."""

from diverse_mha.corpora.corpus import Pair
from diverse_mha.corpora.published import Member, PublishedFile


def _statmt(host: str, path: str, size: int, sha256: str) -> PublishedFile:
    return PublishedFile(
        path.rpartition("/")[2],
        urls=(f"http://{host}/{path}", f"https://{host}/{path}"),
        size=size,
        checksum=f"sha256:{sha256}",
    )


EUROPARL = _statmt(
    "www.statmt.org",
    "wmt13/training-parallel-europarl-v7.tgz",
    657632379,
    "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
COMMON_CRAWL = _statmt(
    "www.statmt.org",
    "wmt13/training-parallel-commoncrawl.tgz",
    918311367,
    "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
NEWS_COMMENTARY_9 = _statmt(
    "www.statmt.org",
    "wmt14/training-parallel-nc-v9.tgz",
    80418416,
    "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
NEWS_COMMENTARY_12 = _statmt(
    "data.statmt.org",
    "wmt17/translation-task/training-parallel-nc-v12.tgz",
    168591139,
    "2b45f30ef1d550d302fd17dd3a5cbe19134ccc4c2cf50c2dae534aee600101a2",
)
RAPID_2016 = _statmt(
    "data.statmt.org",
    "wmt18/translation-task/rapid2016.tgz",
    161050516,
    "41557dd5d8f0ed3a6d98bce3b798b1a9d3b68361eb99d902329ddbb943a6b55a",
)
DEV = _statmt(
    "data.statmt.org",
    "wmt19/translation-task/dev.tgz",
    38654961,
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)


def texts(archive: PublishedFile, stem: str, source: str, target: str) -> Pair:
    """Return a pair of plain files ``STEM.SOURCE`` and ``STEM.TARGET`` of an archive."""
    return Member(archive, f"{stem}.{source}"), Member(archive, f"{stem}.{target}")


def segments(stem: str, source: str, target: str) -> Pair:
    """Return a set of :data:`DEV` that was published as source and reference in SGML."""
    return (
        Member(DEV, f"dev/{stem}-src.{source}.sgm", "segments"),
        Member(DEV, f"dev/{stem}-ref.{target}.sgm", "segments"),
    )


def reverse(pair: Pair) -> Pair:
    """Return a pair with its sides exchanged."""
    return pair[1], pair[0]
