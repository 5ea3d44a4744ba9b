"""Probing tasks: SentEval's files, the tasks made here, and the data of both."""

import gzip
import random

import pytest
from fairseq.data import Dictionary, data_utils

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import make_probing, prepare_probing
from diverse_mha.corpora.probing import TASKS, published_file, read_examples
from diverse_mha.corpora.probing_tasks import bigram_shift, sentence_length, word_content

LINES = [
    "tr\tI\tb a c",
    "tr\tO\ta b c <unk>",
    "tr\tO\ta a rare",
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
    run(tmp_path, "--tasks", "bigram_shift", "--min-count", "2")
    assert "(already done)" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "number, line, message",
    [
        (2, "tr\tO a b", "2 fields separated by tabs, expected 3: split, label, sentence"),
        (3, "dev\tO\ta", "unknown split 'dev'; the splits are tr, va, te"),
        (1, "tr\t\ta", "label ''; a label is one word"),
        (1, "tr\tO\t ", "the sentence is empty"),
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


def test_sentence_length_by_hand():
    sentences = [["w"] * n for n in (4, 5, 8, 9, 24, 25, 28, 29)]
    labelled = [(label, len(words)) for label, words in sentence_length(sentences)]
    assert labelled == [("0", 5), ("0", 8), ("1", 9), ("4", 24), ("5", 25), ("5", 28)]


def test_word_content_by_hand():
    sentences = [["a", "a", "b", "."], ["a", "b", "c"], ["a", "c", "c"], ["a", "d", "."]]
    # Ranks: a (5), c (3), b (2), d (1); no full stop. Chosen: c and b.
    assert word_content(sentences, words=2, rank=1) == [("b", sentences[0])]
    with pytest.raises(ValueError, match="4 different words, and 5 are needed"):
        word_content(sentences, words=2, rank=3)


def test_bigram_shift_exchanges_two_neighbours():
    sentences = [f"one two {n} three four five ! ?".split() for n in range(300)]
    sentences += [["same", "same"], ["alone", "."]]  # nothing to exchange
    labelled = bigram_shift(sentences, random.Random(1))
    assert len(labelled) == 300
    shifted = 0
    for (label, words), original in zip(labelled, sentences, strict=False):
        changed = [
            i for i, pair in enumerate(zip(words, original, strict=True)) if len(set(pair)) > 1
        ]
        if label == "O":
            assert not changed
            continue
        shifted += 1
        i, j = changed
        assert j == i + 1 and (words[i], words[j]) == (original[j], original[i])
        assert original[i].isalpha() and original[j].isalpha()
    assert 120 < shifted < 180


def test_tasks_are_made_of_a_text_and_can_be_prepared(tmp_path, capsys):
    generator = random.Random(3)
    words = [f"{first}{second}" for first in "bcdfg" for second in "aeiou"]
    lines = [" ".join(generator.choices(words, k=generator.randint(3, 14))) for _ in range(400)]
    lines.append(lines[0])
    with gzip.open(tmp_path / "text.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    words = [str(tmp_path / "text.gz"), "--out", str(tmp_path / "from"), "--tokenised"]
    words += ["--content-words", "5", "--content-rank", "3", "--seed", "4"]
    make_probing.main(words)
    first = {path.name: path.read_text() for path in (tmp_path / "from").iterdir()}
    make_probing.main(words)
    assert first == {path.name: path.read_text() for path in (tmp_path / "from").iterdir()}
    assert set(first) == {f"{task}.txt" for task in make_probing.MADE}
    for task in make_probing.MADE:
        examples = list(read_examples(tmp_path / "from" / f"{task}.txt"))
        sizes = {s: sum(e.split == s for e in examples) for s in ("train", "valid", "test")}
        assert sizes["train"] == pytest.approx(10 / 12 * len(examples), abs=2)
        assert abs(sizes["valid"] - sizes["test"]) <= 2
    lengths = [e.sentence for e in read_examples(tmp_path / "from" / "sentence_length.txt")]
    assert len(lengths) == len(set(lengths))  # none is in two splits
    run(tmp_path, "--tasks", ",".join(make_probing.MADE))
    assert "next: bash data-prep/prepare-probing.sh --from" in capsys.readouterr().out


def test_a_text_that_will_not_do_is_named(tmp_path):
    (tmp_path / "short.txt").write_text("one two\n")
    common = ["--out", str(tmp_path / "out"), "--tokenised"]
    short = str(tmp_path / "short.txt")
    for words, message in (
        ([str(tmp_path / "none.txt")], "none.txt: no such file"),
        ([short, "--tasks", "word_content"], "2 different words, and 3,000 are needed; lower"),
        ([short, "--tasks", "sentence_length"], "too few sentences for sentence_length"),
        ([short, "--tasks", "tree_depth"], "unknown 'tree_depth'; choose from sentence_length, w"),
    ):
        with pytest.raises(UserError, match=message):
            make_probing.main([*words, *common])
    assert not (tmp_path / "out").exists()
