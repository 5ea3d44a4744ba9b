"""Subword models."""

import io

import pytest
import sentencepiece
from fairseq.data.data_utils import post_process
from subword_nmt.learn_bpe import learn_bpe

from diverse_mha.corpora import subwords
from diverse_mha.corpora.text import write_lines

WORDS = "low lower newest widest newer wider slow slower lowest"
RESERVED = "low▁er ▁ ▁▁ ▅ slow▅ x<s>y </s> <unk>"


@pytest.fixture
def train(tmp_path):
    write_lines(tmp_path / "train.a", [WORDS] * 20)
    write_lines(tmp_path / "train.b", ["höher höchst höhere"] * 20)
    return [tmp_path / "train.a", tmp_path / "train.b"]


def learn(method, train, model, size):
    if method == "sentencepiece":
        subwords.learn_pieces(train, model, size)
        return
    text = "".join(path.read_text() for path in train)
    with open(model, "w") as codes:
        learn_bpe(io.StringIO(text), codes, size)


@pytest.mark.parametrize("method, size", [("bpe", 12), ("sentencepiece", 40)])
def test_pieces_split_words_and_join_to_the_text(train, tmp_path, capfd, method, size):
    model = tmp_path / subwords.MODEL_FILE[method]
    learn(method, train, model, size)
    segment, kind = subwords.make_segmenter(method, model), subwords.POST_PROCESS[method]
    for line in (WORDS, "höher lowerest", "ﬁne", "sel\u2028we"):
        pieces = segment(line)
        assert len(pieces.split(" ")) > len(line.split(" "))
        if "\u2028" not in line:
            assert subwords.join_subwords(pieces.split(" "), kind) == line
    assert "\n" not in pieces
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("more", [WORDS, RESERVED], ids=["not learned", "learned"])
def test_reserved_characters_are_restored(tmp_path, more):
    write_lines(tmp_path / "train.a", [WORDS] * 20 + [more] * 3)
    subwords.learn_pieces([tmp_path / "train.a"], tmp_path / "model", 60, escape=True)
    pieces = subwords.make_segmenter("sentencepiece", tmp_path / "model")(RESERVED).split(" ")
    assert subwords.join_subwords(pieces, "sentencepiece") == RESERVED
    known = {line.split(" ")[0] for line in subwords.dictionary(tmp_path / "model", [])}
    assert (more == RESERVED) == (set(pieces) <= known)
    assert known.isdisjoint({"<s>", "</s>", "<unk>"})


def test_lines_whose_reserved_characters_are_lost_are_named(train, tmp_path, capsys):
    write_lines(tmp_path / "test.a", [WORDS, f"low {subwords.BLANK} er", WORDS, RESERVED])
    texts = [*train, tmp_path / "test.a"]
    for escape in (True, False):
        subwords.learn_pieces(train, tmp_path / "model", 40, escape=escape)
        subwords.report_blanks(tmp_path / "model", texts)
        printed = capsys.readouterr().err.splitlines()
        assert len(printed) == (not escape)
    assert printed[0].startswith("warning: test.a: line 2 and 1 more: ")


@pytest.mark.parametrize("kind", ["sentencepiece", "subword_nmt", None])
@pytest.mark.parametrize("line", ["▁sel we", "lo@@ w er@@", "▁ a ▁", "@@ @@ a", ""])
def test_subwords_are_joined_as_by_fairseq(kind, line):
    assert subwords.join_subwords(line.split(" "), kind) == post_process(line, kind)


def test_rare_characters_have_pieces(tmp_path):
    write_lines(tmp_path / "train.a", [WORDS] * 200 + ["日"])
    subwords.learn_pieces([tmp_path / "train.a"], tmp_path / "model", 40)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model"))
    assert model.piece_to_id("日") != model.unk_id()
