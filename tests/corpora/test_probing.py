"""Probing tasks: SentEval's files, and the data made of them."""

import pytest
from fairseq.data import Dictionary, data_utils

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import prepare_probing
from diverse_mha.corpora.probing import TASKS, published_file, read_examples

LINES = [
    "tr\tI\tb a c",
    "tr\tO\ta b c <unk>",
    "tr\tO \ta a rare",
    "va\tO\tc b new",
    "te\tI\ta",
]


def publish(folder, task="bigram_shift", lines=LINES):
    folder.mkdir(exist_ok=True)
    (folder / f"{task}.txt").write_text("\n".join(lines) + "\n")
    return folder


def run(folder, *words):
    """Prepare bigram_shift from ``folder/from`` into ``folder/out``."""
    prepare_probing.main(["--from", str(folder / "from"), "--out", str(folder / "out"), *words])


def test_the_ten_tasks_have_their_addresses():
    assert len(TASKS) == 10
    for task in TASKS:
        assert published_file(task).urls[0].endswith(f"/SentEval/main/data/probing/{task}.txt")


def test_a_file_becomes_data(tmp_path, capsys):
    publish(tmp_path / "from")
    run(tmp_path, "--tasks", "bigram_shift", "--min-count", "2")
    out = tmp_path / "out" / "bigram_shift"
    words = Dictionary.load(str(out / "bin" / "input0" / "dict.txt"))
    labels = Dictionary.load(str(out / "bin" / "label" / "dict.txt"))
    assert words.symbols[4:] == ["a", "b", "c"]  # most frequent first; no rare, no special word
    assert labels.symbols[4:] == ["O", "I"]
    train = data_utils.load_indexed_dataset(str(out / "bin" / "input0" / "train"))
    assert [words.string(train[i]) for i in range(3)] == ["b a c", "a b c <unk>", "a a <unk>"]
    valid = data_utils.load_indexed_dataset(str(out / "bin" / "input0" / "valid"))
    assert words.string(valid[0]) == "c b <unk>" and int(valid[0][-1]) == words.eos()
    test = data_utils.load_indexed_dataset(str(out / "bin" / "label" / "test"))
    assert labels.string(test[0]) == "I"
    told = capsys.readouterr().out
    assert "bigram_shift: read: 3 train, 1 valid, 1 test sentences" in told
    assert f"ready: fairseq-train {out / 'bin'}" in told
    run(tmp_path, "--tasks", "bigram_shift", "--min-count", "2")
    assert capsys.readouterr().out.count("(already done)") == 2
    publish(tmp_path / "from", lines=[*LINES, "tr\tO\tmore"])
    again = ["--tasks", "bigram_shift", "--min-count", "2"]
    with pytest.raises(UserError, match=r"bigram_shift holds another .* \(text/ has other file\)"):
        run(tmp_path, *again)
    run(tmp_path, *again, "--force")
    assert "(already done)" not in capsys.readouterr().out


def test_a_limit_that_leaves_no_words_is_refused(tmp_path):
    publish(tmp_path / "from")
    with pytest.raises(UserError, match="--min-count 9: no word of the training text comes as"):
        run(tmp_path, "--tasks", "bigram_shift", "--min-count", "9")
    assert not (tmp_path / "out" / "bigram_shift" / "bin").exists()


@pytest.mark.parametrize(
    "number, line, message",
    [
        (2, "tr\tO a b", "2 fields separated by tabs, expected 3: split, label, sentence"),
        (3, "dev\tO\ta", "unknown split 'dev'; the splits are tr, va, te"),
        (1, "tr\t\ta", "label ''; a label is one word"),
        (1, "tr\tO\t ", "the sentence is empty"),
        (2, "tr\tO\ta <pad> </s> b", "the sentence has </s>, a mark of fairseq's; take it out"),
        (5, "te\tX\ta", "label 'X' does not occur in training"),
    ],
)
def test_a_malformed_line_is_named_and_nothing_is_left(tmp_path, number, line, message):
    lines = [*LINES]
    lines[number - 1] = line
    publish(tmp_path / "from", lines=lines)
    with pytest.raises(UserError, match=rf"bigram_shift\.txt:{number}: {message}"):
        run(tmp_path, "--tasks", "bigram_shift")
    assert not (tmp_path / "out" / "bigram_shift" / "text").exists()


def test_a_missing_split_file_or_task_is_named(tmp_path):
    publish(tmp_path / "from", lines=LINES[:4])
    with pytest.raises(UserError, match=r"no line of split te \(test\)"):
        list(read_examples(tmp_path / "from" / "bigram_shift.txt"))
    with pytest.raises(UserError, match="has no sentence_length.txt, no .*; put them .*--tasks"):
        run(tmp_path)
    with pytest.raises(UserError, match="--tasks depth: unknown 'depth'; choose from sentence_l"):
        run(tmp_path, "--tasks", "depth")
    with pytest.raises(UserError, match="'tree_depth' is given twice"):
        run(tmp_path, "--tasks", "tree_depth,tree_depth")


def test_downloads_go_on_where_they_stopped(tmp_path, monkeypatch):
    """What is fetched is asked of the shared downloader, file by file."""
    asked = []

    def download(file, folder):
        asked.append((file.name, folder))
        return publish(folder) / "bigram_shift.txt"

    monkeypatch.setattr(prepare_probing.download, "download", download)
    prepare_probing.main(["--out", str(tmp_path), "--tasks", "bigram_shift"])
    prepare_probing.main(["--out", str(tmp_path), "--tasks", "bigram_shift"])
    assert asked == [("bigram_shift.txt", tmp_path / "download")]  # once: then it is done
