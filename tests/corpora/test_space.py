"""Room on the disk."""

import shutil
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.catalogue import CORPORA
from diverse_mha.corpora.space import download_bytes, human, require_space, work_bytes


@pytest.mark.parametrize(
    "size, said", [(12, "12 bytes"), (2e7, "20 MB"), (1.69e9, "1.7 GB"), (4.5e11, "450 GB")]
)
def test_human(size, said):
    assert human(size) == said


def test_what_is_downloaded_already_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    folder = tmp_path / "out"
    require_space(folder, 1000)
    with pytest.raises(UserError, match="out: about 2 kB are needed and 1 kB are free; free some"):
        require_space(folder, 1500)
    for name in ("raw", "download"):  # the text of an earlier run stays until the new one is whole
        with pytest.raises(UserError, match="out: about 2 kB are needed"):
            require_space(folder, 1500)
        (folder / name).mkdir(parents=True)
        (folder / name / "part").write_bytes(b"x" * 500)
    require_space(folder, 1500)


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: asked.append(path) or SimpleNamespace(free=10)
    )
    require_space(tmp_path / "a" / "b", 5)
    assert asked == [tmp_path] and not (tmp_path / "a").exists()


def test_smaller_files_of_ones_own_need_less(tmp_path):
    corpus = CORPORA["wmt14-en-de"]
    assert work_bytes(corpus, tmp_path) == work_bytes(corpus)  # as published, for all one knows
    for file in corpus.published():
        (tmp_path / file.name).write_bytes(b"x" * 100)
    assert work_bytes(corpus.unchecked(), tmp_path) == work_bytes(corpus, tmp_path)
    share = 100 * len(corpus.published()) / download_bytes(corpus)
    assert work_bytes(corpus, tmp_path) == int(share * work_bytes(corpus)) < 10_000
    with (tmp_path / corpus.published()[0].name).open("r+b") as large:
        large.truncate(10**10)  # a hole, not ten gigabytes
    assert work_bytes(corpus, tmp_path) == work_bytes(corpus)


def test_sizes_of_the_sources():
    """The sum of the published sizes, by hand."""
    assert download_bytes(CORPORA["wmt14-en-de"]) == 657632379 + 918311367 + 80418416 + 38654961
    assert work_bytes(CORPORA["wmt14-en-de"]) == 6 * 1_400_000_000
    for corpus in CORPORA.values():
        assert download_bytes(corpus.unchecked()) == download_bytes(corpus)
    assert download_bytes(CORPORA["multi30k"]) == work_bytes(CORPORA["multi30k"]) == 0
