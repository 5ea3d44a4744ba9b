"""Text in any writing system survives preparation unchanged."""

import unicodedata
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.own import check_moses
from diverse_mha.corpora.prepared import preparation, read_side
from diverse_mha.corpora.subwords import join_subwords
from diverse_mha.corpora.text import write_lines
from diverse_mha.evaluation.scores import bleu_scores
from tests.corpora.scripts import refused, run
from tests.corpora.writing import SENTENCES

WORDS = ["--from", "text", "--source", "xx", "--target", "en", "--out", "out", "--workers", "1"]
WHOLE_IN_MOSES = {"Arabic": "ar", "Korean": "ko", "Japanese": "ja", "Chinese": "zh"}
WHOLE_IN_MOSES["reserved by sentencepiece"] = "de"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of a corpus in all writing systems, prepared with default options."""
    place = tmp_path_factory.mktemp("writing")
    (place / "text").mkdir()
    lines = [line for lines in SENTENCES.values() for line in lines]
    for split in ("train", "valid", "test"):
        write_lines(place / f"text/{split}.xx", lines)
        write_lines(place / f"text/{split}.en", lines)
    printed = run("own", *WORDS, cwd=place).stdout
    assert " pieces (8,000 requested, but no further pair occurs twice); different" in printed
    return place / "out"


def decoded(folder: Path, language: str) -> list[str]:
    """Return the output of a perfect model: the binarised references, detokenised."""
    words = Dictionary.load(str(folder / f"bin/dict.{language}.txt"))
    text = load_indexed_dataset(str(folder / f"bin/test.xx-en.{language}"))
    post_process = preparation(folder / "bin").post_process
    plain = read_side(folder / "bin", language).detokenise()
    pieces = [words.string(text[n]).split(" ") for n in range(len(text))]
    return [plain(join_subwords(line, post_process)) for line in pieces]


def test_tokenising_and_detokenising_restores_text_in_every_script(folder):
    raw = (folder / "raw/test.xx").read_text(encoding="utf-8").splitlines()
    found = decoded(folder, "xx")
    assert found == [unicodedata.normalize("NFC", line) for line in raw]
    for line, ours in zip(raw, found, strict=True):
        four = [" ".join([ours] * 4)], [], [" ".join([line] * 4)]  # BLEU needs four words
        assert bleu_scores(None, *four, target_lang="en")["sacrebleu"] > 99
    assert decoded(folder, "en") == found


def test_plain_text_is_segmented_like_the_corpus(folder):
    side, words = read_side(folder / "bin", "xx"), (folder / "bpe/test.xx").read_text().splitlines()
    assert [side.encode()(line) for lines in SENTENCES.values() for line in lines] == words


def test_text_prepared_with_like_is_segmented_like_the_earlier_corpus(folder):
    printed = run("own", *WORDS[:6], "--out", "like", "--like", "out", cwd=folder.parent).stdout
    assert "unknown tokens in train: 0.00% of xx, 0.00% of en" in printed
    for place in ("bpe/test.xx", "bin/dict.en.txt"):
        assert (folder.parent / "like" / place).read_bytes() == (folder / place).read_bytes()
    assert preparation(folder.parent / "like/bin") == preparation(folder / "bin")


def test_every_piece_is_in_the_dictionary(folder):
    words = Dictionary.load(str(folder / "bin/dict.en.txt"))
    assert len(words) % 8 == 0
    pieces = read_side(folder / "bin", "en").encode()("reuen Strich niederen हीन").split()
    assert words.unk() not in map(words.index, pieces)


@pytest.mark.parametrize("script", SENTENCES)
def test_moses_is_refused_for_languages_whose_words_it_splits(script, tmp_path):
    write_lines(text := tmp_path / "train.xx", SENTENCES[script])
    if script in WHOLE_IN_MOSES:
        check_moses(text, WHOLE_IN_MOSES[script])
    else:
        with pytest.raises(UserError, match="--tokeniser moses: splits words such as '.+' in "):
            check_moses(text, "xx")


def test_moses_may_split_rare_words_but_frequent_ones_are_reported(tmp_path):
    german = [SENTENCES["Latin, decomposed"][0]] * 200
    write_lines(text := tmp_path / "train.de", [*german, "Donau\u00addampf"])
    check_moses(text, "de")
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test"):
        for side in ("xx", "en"):
            write_lines(tmp_path / f"text/{split}.{side}", SENTENCES["Persian"])
    printed = refused("own", *WORDS, "--tokeniser", "moses", cwd=tmp_path)
    assert "in 100% of the lines of text/train.xx; leave the option out" in printed
    assert not (tmp_path / "out").exists()
