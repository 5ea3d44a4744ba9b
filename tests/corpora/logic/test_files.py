"""Published files: reading and checking them."""

import gzip

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.logic.generate import generate
from diverse_mha.corpora.logic.pairs import by_length, parse_pair, published_files
from diverse_mha.corpora.text import parse_lines


@pytest.fixture
def folder(tmp_path):
    """The published files in miniature: one length a file, one of them not packed."""
    for length, pairs in by_length(generate(4000, 2)).items():
        text = "".join(pair.line + "\n" for pair in pairs)
        if length == 3:
            (tmp_path / "train3").write_text(text)
        else:
            with gzip.open(tmp_path / f"train{length}.gz", "wt") as file:
                file.write(text)
    (tmp_path / "notes.txt").write_text("not one of them\n")
    return tmp_path


def test_files_are_read_by_length(folder):
    files = published_files(folder)
    assert [path.name for path in files][:5] == [
        "train0.gz",
        "train1.gz",
        "train2.gz",
        "train3",
        "train4.gz",
    ]
    pairs = [pair for path in files for _, pair in parse_lines(path, parse_pair)]
    assert len(pairs) == len(set(pairs)) > 2000
    assert [number for number, _ in parse_lines(files[3], parse_pair)][:2] == [1, 2]


@pytest.mark.parametrize(
    "line, message",
    [
        ("~\ta\tb", "unknown relation '~'; the relations are < > = \\^ | v #"),
        ("#\ta\t( b", "the formula breaks off"),
    ],
)
def test_a_malformed_line_is_named(folder, line, message):
    with open(folder / "train3", "a") as file:
        file.write(line + "\n")
    number = len((folder / "train3").read_text().splitlines())
    with pytest.raises(UserError, match=f"train3:{number}: {message}"):
        list(parse_lines(folder / "train3", parse_pair))


def test_missing_double_and_damaged_files_are_named(folder):
    packed = (folder / "train5.gz").read_bytes()
    (folder / "train5.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UserError, match="train5.gz is damaged or cut off"):
        list(parse_lines(folder / "train5.gz", parse_pair))
    (folder / "train5.gz").unlink()
    with pytest.raises(UserError, match="lacks train5 "):
        published_files(folder)
    (folder / "train3.gz").write_bytes(packed)
    with pytest.raises(UserError, match="train3.gz: the same file as train3;"):
        published_files(folder)
    with pytest.raises(UserError, match="nowhere: no such folder"):
        published_files(folder / "nowhere")
