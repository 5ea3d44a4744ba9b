"""Learning and applying subwords."""

import io

import pytest
import sentencepiece
from subword_nmt.learn_bpe import learn_bpe

from diverse_mha.corpora import subwords
from diverse_mha.corpora.text import write_lines

WORDS = "low lower newest widest newer wider slow slower lowest"


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


def undo(method, line):
    if method == "bpe":
        return (line + " ").replace("@@ ", "").strip()
    return line.replace(" ", "").replace("▁", " ").strip()


@pytest.mark.parametrize("method, size", [("bpe", 12), ("sentencepiece", 40)])
def test_pieces_split_words_and_join_to_the_text(train, tmp_path, capfd, method, size):
    model = tmp_path / subwords.MODEL_FILE[method]
    learn(method, train, model, size)
    segment = subwords.make_segmenter(method, model)
    for line in (WORDS, "höher lowerest", "ﬁne", "sel\u2028we"):
        pieces = segment(line)
        assert len(pieces.split(" ")) > len(line.split(" "))
        if "\u2028" not in line:
            assert undo(method, pieces) == line
    assert "\n" not in pieces
    assert capfd.readouterr().out == ""


def test_rare_characters_have_pieces(tmp_path):
    write_lines(tmp_path / "train.a", [WORDS] * 200 + ["日"])
    subwords.learn_pieces([tmp_path / "train.a"], tmp_path / "model", 40)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model"))
    assert model.piece_to_id("日") != model.unk_id()
