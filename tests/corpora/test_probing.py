"""Data of probing tasks, made from SentEval's files."""

import pytest
from fairseq.data import Dictionary, data_utils

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.probing import TASKS, _read
from tests.corpora.scripts import ROOT, refused, run

LINES = ["tr\tI\tb a c", "tr\tO\ta b c <unk>", "tr\tO \ta a rare", "va\tO\tc b new", "te\tI\ta"]
WORDS = ["--from", "from", "--out", "out", "--tasks", "bigram_shift", "--min-count", "2"]


def publish(folder, lines=LINES):
    (folder / "from").mkdir(exist_ok=True)
    path = folder / "from/bigram_shift.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_prepare_probing_has_the_ten_tasks_of_senteval():
    assert len(TASKS) == 10
    text = (ROOT / "data-prep/prepare-probing.sh").read_text()
    assert all(task in text for task in TASKS)


def test_published_file_is_binarised(tmp_path):
    publish(tmp_path)
    printed = run("probing", *WORDS, cwd=tmp_path).stdout
    assert "bigram_shift: read: 3 train, 1 valid, 1 test sentences" in printed
    assert printed.splitlines()[-1] == "ready: fairseq-train out/bigram_shift/bin"
    folder = tmp_path / "out/bigram_shift/bin"
    words = Dictionary.load(str(folder / "input0/dict.txt"))
    labels = Dictionary.load(str(folder / "label/dict.txt"))
    assert words.symbols[4:] == [
        "a",
        "b",
        "c",
    ]  # most frequent first, without rare words and special tokens
    assert labels.symbols[4:] == ["O", "I"]
    train = data_utils.load_indexed_dataset(str(folder / "input0/train"))
    assert [words.string(train[i]) for i in range(3)] == ["b a c", "a b c <unk>", "a a <unk>"]
    test = data_utils.load_indexed_dataset(str(folder / "label/test"))
    assert labels.string(test[0]) == "I"
    assert run("probing", *WORDS, cwd=tmp_path).stdout.count("(already done)") == 2
    publish(tmp_path, [*LINES, "tr\tO\tmore"])
    printed = refused("probing", *WORDS, cwd=tmp_path)
    assert (
        "out/bigram_shift holds a corpus prepared from other files or options (step text: -"
        in printed
    )
    assert "(already done)" not in run("probing", *WORDS, "--force", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    "number, line, message",
    [
        (2, "tr\tO a b", "expected SPLIT, LABEL and SENTENCE separated by tabs; SPLIT is tr, va"),
        (3, "dev\tO\ta", "expected SPLIT, LABEL and SENTENCE"),
        (1, "tr\t\ta", "label '': must be one word"),
        (1, "tr\tO\t ", "the sentence is empty"),
        (2, "tr\tO\ta <pad> </s> b", "the sentence has </s>, fairseq's special token; remove it"),
        (5, "te\tX\ta", "label 'X' has no example of split tr"),
        (5, "va\tO\ta", r"no line of split te \(test\)"),
    ],
)
def test_a_malformed_line_is_reported(tmp_path, number, line, message):
    lines = [*LINES]
    lines[number - 1] = line
    with pytest.raises(UserError, match=rf"bigram_shift\.txt:({number}:)? {message}"):
        _read(publish(tmp_path, lines), tmp_path)
