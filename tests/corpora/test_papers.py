"""Preparation of the papers' corpora and Tatoeba from miniature archives in a local folder."""

import gzip

import pytest

from tests.corpora.miniature import ARCHIVES, HELD, TRAIN, numbers, publish
from tests.corpora.scripts import digest, for_miniatures, refused, run

# Numbers of pairs in train (before the filter), valid and test; digest of the prepared corpus.
CORPORA = {
    "iwslt14": (TRAIN + 4 - 2, 2, 5 * HELD, "763a6493dd8c"),
    "iwslt17": (TRAIN, 6 * HELD, HELD, "be554a6b9d27"),
    "wmt14-en-de": (3 * TRAIN, HELD, HELD, "d47b7a6aa277"),
    "wmt14-en-de-google": (TRAIN, HELD, HELD, "bb21be955f66"),
    "wmt17-de-en": (50, 7 * HELD, HELD, "8e5648b3a7f9"),
    "wmt17-zh-en": (28 * TRAIN, HELD, HELD, "2399ff58990d"),
    "un-ru-en": (50, HELD, HELD, "1fbb6eab19e6"),
    "un-zh-en": (50, HELD, HELD, "07073613653e"),
    "tatoeba": (TRAIN - 4 - 6, 4, 6, "d44fac840689"),
}
CHECKED = [name for name in ARCHIVES if name != "tatoeba"]  # its checksum is not known


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    return for_miniatures(tmp_path_factory.mktemp("scripts"))


def words(name, *more):
    small = [] if name.endswith("google") else ["--merges", "150"]
    small += ["--sample", "50"] if name in ("wmt17-de-en", "un-ru-en", "un-zh-en") else []
    small += ["--valid", "4", "--test", "6"] if name == "tatoeba" else []
    return [name, "--from", "mini", "--out", "out", *small, *more]


@pytest.mark.parametrize("name", ARCHIVES)
def test_miniature_corpus_keeps_its_bytes(name, tmp_path, scripts):
    publish(name, tmp_path / "mini")
    printed = run(*words(name), cwd=tmp_path, scripts=scripts).stdout.splitlines()
    *counts, expected = CORPORA[name]
    sizes, out = dict(zip(("train", "valid", "test"), counts, strict=True)), tmp_path / "out"
    languages = name.replace("-google", "").split("-")[-2:] if "-" in name else ["de", "en"]
    google = name.endswith("google")
    for folder in ("raw", "tok", "bpe"):
        for split in sizes if folder == "bpe" or not google else ("valid", "test"):
            source, target = (numbers(out / folder / f"{split}.{x}") for x in languages)
            assert source == target and len(source) == sizes[split], (folder, split)
    assert not list(out.glob(".*.tmp*")) and not list(out.rglob("unpacked"))
    assert len([line for line in printed if line.startswith("[")]) == 5 - google
    assert printed[-1] == "ready: fairseq-train out/bin"
    assert digest(out) == expected


@pytest.mark.parametrize("name", CHECKED)
def test_unpublished_files_are_refused(name, tmp_path):
    publish(name, tmp_path / "mini")
    printed = refused(*words(name), cwd=tmp_path)
    assert printed.startswith("error: mini/") and "is not the published file: its " in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stem", ["ptb.", ""])
def test_penn_treebank_is_read_under_either_name_plain_or_gzipped(stem, tmp_path, scripts):
    (tmp_path / "mini").mkdir()
    for split in ("train", "valid", "test"):
        text = f" a small house \n {split} <unk> N \n".encode()
        place = tmp_path / f"mini/{stem}{split}.txt"
        place.write_bytes(text) if split == "valid" else write_gzip(place, text)
    run("ptb", "--from", "mini", "--out", "out", cwd=tmp_path, scripts=scripts)
    assert (tmp_path / "out/raw/test.txt").read_text() == " a small house \n test <unk> N \n"
    assert (tmp_path / "out/bin/test.idx").is_file()


def write_gzip(place, text):
    place.with_name(f"{place.name}.gz").write_bytes(gzip.compress(text))


def test_official_sets_have_the_published_number_of_lines(tmp_path, scripts):
    """Lines of the official sets are counted, because the archive has no known checksum."""
    publish("un-ru-en", tmp_path / "mini")
    script = scripts / "data-prep/prepare-un-ru-en.sh"
    text = script.read_text()
    script.write_text(text.replace("collect valid", "collect --lines=4000 valid"))
    printed = refused(*words("un-ru-en"), cwd=tmp_path, scripts=scripts)
    script.write_text(text)
    assert "UNv1.0.devset.ru has 4 sentences, expected 4,000" in printed
