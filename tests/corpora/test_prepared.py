"""Plain text gets the same pre-processing as the text of a data folder."""

import json

import pytest
from subword_nmt.learn_bpe import learn_bpe

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.prepared import read_side
from diverse_mha.corpora.text import write_lines
from tests.corpora.test_own import NOTE as OWN

NOTE = OWN | {"normalise": True}


@pytest.fixture
def folder(tmp_path):
    """Data folder as written by the scripts of data-prep/, with BPE merges."""
    for name in ("bin", "bpe"):
        (tmp_path / name).mkdir()
    text = tmp_path / "text"
    write_lines(text, ["der mann läuft und der mann singt"] * 5)
    with open(text) as lines, open(tmp_path / "bpe/codes", "w") as codes:
        learn_bpe(lines, codes, 8)
    (tmp_path / "bin/corpus.json").write_text(json.dumps(NOTE))
    return tmp_path / "bin"


def test_a_line_is_normalised_tokenised_lowercased_and_split(folder):
    words = read_side(folder, "de").encode()("Der Mann „läuft“ hin-her.").split()
    assert words[:2] == ["der", "mann"]
    joined = " ".join(words).replace("@@ ", "")
    assert joined == "der mann &quot; läuft &quot; hin @-@ her ."


def test_corpus_json_overrides_the_dictionary(folder):
    (folder / "corpus.json").write_text(json.dumps(NOTE | {"lowercase": False, "normalise": False}))
    assert "“" in read_side(folder, "de").tokenise()("„Mann“")
    assert read_side(folder, "en").moses == "en"
    assert read_side(folder, "de").tokenise()("Mann") == "Mann"


def test_iwslt_text_is_normalised_like_its_test_set(folder):
    (folder / "corpus.json").write_text(json.dumps(NOTE | {"corpus": "iwslt14"}))
    assert read_side(folder, "de").made.tokeniser["straight_apostrophes"]


def test_separate_merges_of_each_language_are_used(folder):
    codes = folder.parent / "bpe/codes"
    codes.rename(codes.with_name("codes.de"))
    assert read_side(folder, "de").model.name == "codes.de"
    with pytest.raises(UserError, match="codes: no such file; keep bpe/ beside bin/"):
        read_side(folder, "en")


def test_data_of_other_languages_or_without_corpus_json_is_refused(folder):
    with pytest.raises(UserError, match="corpus.json: is of de and en, not fr"):
        read_side(folder, "fr")
    (folder / "corpus.json").unlink()
    with pytest.raises(UserError, match="corpus.json: no such file; .* fairseq-interactive"):
        read_side(folder, "de")
