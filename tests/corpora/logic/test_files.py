"""Published files: reading them, checking them, and comparing a generated set."""

import gzip

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.logic import check, compare
from diverse_mha.corpora.logic.generate import generate
from diverse_mha.corpora.logic.pairs import by_length, published_files, read_pairs


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
    pairs = [pair for path in files for _, pair in read_pairs(path)]
    assert len(pairs) == len(set(pairs)) > 2000
    assert [number for number, _ in read_pairs(files[3])][:2] == [1, 2]


def test_check_finds_no_disagreement_in_right_files(folder, capsys):
    assert check.main([str(folder)]) == 0
    assert "pairs, 0 disagreements, 0 of another length" in capsys.readouterr().out.splitlines()[-1]


def test_check_finds_what_is_wrong(folder, capsys):
    lines = (folder / "train3").read_text().splitlines()
    sign = next(s for s in "<#" if s != lines[6][0])
    lines[6] = sign + lines[6][1:]
    lines[8] = "#\ta\tb"
    lines[9] = "#\t( a ( or ( not a ) ) )\tb"
    (folder / "train3").write_text("\n".join(lines) + "\n")
    assert check.main([str(folder)]) == 1
    told = capsys.readouterr()
    # The tautology has two operators: wrong and misplaced.
    assert "train3: " in told.out and "2 disagreements, 2 of another length" in told.out
    assert f"train3:7: the file says {sign}, the 64 worlds say" in told.err
    assert "train3:10: the left side is a tautology" in told.err
    assert "train3:9: a pair of length 0" in told.err


@pytest.mark.parametrize(
    "line, message",
    [
        ("#\ta", "2 fields separated by tabs, expected 3"),
        ("~\ta\tb", "unknown relation '~'; the relations are < > = \\^ | v #"),
        ("#\ta\t( b", "the formula breaks off"),
    ],
)
def test_a_malformed_line_is_named(folder, line, message):
    with open(folder / "train3", "a") as file:
        file.write(line + "\n")
    number = len((folder / "train3").read_text().splitlines())
    with pytest.raises(UserError, match=f"train3:{number}: {message}"):
        list(read_pairs(folder / "train3"))


def test_missing_double_and_damaged_files_are_named(folder):
    packed = (folder / "train5.gz").read_bytes()
    (folder / "train5.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UserError, match="train5.gz is damaged or cut off"):
        list(read_pairs(folder / "train5.gz"))
    (folder / "train5.gz").unlink()
    with pytest.raises(UserError, match="lacks train5 "):
        published_files(folder)
    (folder / "train3.gz").write_bytes(packed)
    with pytest.raises(UserError, match="train3.gz: the same file as train3;"):
        published_files(folder)
    with pytest.raises(UserError, match="nowhere: no such folder"):
        published_files(folder / "nowhere")


def test_compare_prints_both_distributions(folder, capsys):
    compare.main([str(folder), "--draws", "4000", "--seed", "2"])
    tables = capsys.readouterr().out.split("\n\n")
    rows = [line.strip("| ").split(" | ") for line in tables[0].splitlines()]
    assert [row[0] for row in rows[2:]] == [*map(str, range(13)), "all"]
    for row in rows[2:-1]:  # the same seed: the same set
        assert row[1] == row[3] and row[2] == row[4]
    assert "| \\| |" in tables[1] and "| v |" in tables[1]
