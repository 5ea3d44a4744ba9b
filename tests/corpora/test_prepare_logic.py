"""Preparing the logical pairs: from a seed and from published files."""

import gzip
import json

import pytest
from fairseq.data import Dictionary, data_utils

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import prepare_logic
from diverse_mha.corpora.logic.generate import generate
from diverse_mha.corpora.logic.pairs import by_length, parse_pair

DRAWS = 3000
FIELDS = ("label", "input0", "input1", "length")  # in the order of a line


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A small generated set."""
    out = tmp_path_factory.mktemp("logic")
    prepare_logic.main(["--out", str(out), "--draws", str(DRAWS), "--seed", "5"])
    return out


def split(out, name):
    return (out / "split" / f"{name}.tsv").read_text().splitlines()


def test_every_length_is_split_into_tenths(prepared):
    names = ["train", "valid", *(f"test{n}" for n in range(1, 13))]
    assert {path.stem for path in (prepared / "split").glob("*.tsv")} == set(names)
    everything = by_length(generate(DRAWS, 5))
    seen = [line for name in names for line in split(prepared, name)]
    assert len(seen) == len(set(seen))  # no pair is in two splits
    parsed = [parse_pair(line.rpartition("\t")[0]) for line in seen]
    short = {p for n in range(1, 7) for p in everything[n]}
    assert {p for p in parsed if p.length <= 6} == short  # none is lost
    for name in ("train", "valid"):
        assert all(1 <= int(line.rpartition("\t")[2]) <= 6 for line in split(prepared, name))
    for length in range(1, 13):
        lines = split(prepared, f"test{length}")
        assert len(lines) == round(0.1 * len(everything[length])) > 0
        assert {parse_pair(line.rpartition("\t")[0]).length for line in lines} == {length}
    assert len(split(prepared, "train")) == pytest.approx(0.8 * len(short), abs=6)


def test_bin_holds_what_split_says(prepared):
    bin_folder = prepared / "bin"
    dictionaries = {name: Dictionary.load(str(bin_folder / name / "dict.txt")) for name in FIELDS}
    assert dictionaries["input0"].symbols[4:] == "a b c d e f and or not ( )".split()
    assert dictionaries["label"].symbols[4:] == ["<", ">", "=", "^", "|", "v", "#"]
    for name in ("valid", "test9"):
        columns = [
            data_utils.load_indexed_dataset(str(bin_folder / field / name)) for field in FIELDS
        ]
        read = [
            "\t".join(
                dictionaries[field].string(column[i])
                for field, column in zip(FIELDS, columns, strict=True)
            )
            for i in range(len(columns[0]))
        ]
        assert read == split(prepared, name)
    assert json.loads((bin_folder / "corpus.json").read_text())["train_operators"] == 6


def test_a_second_run_does_nothing(prepared, capsys):
    prepare_logic.main(["--out", str(prepared), "--draws", str(DRAWS), "--seed", "5"])
    assert capsys.readouterr().out.count("(already done)") == 3
    with pytest.raises(UserError, match=r"holds another .* \(logic; pairs/ has other seed\)"):
        prepare_logic.main(["--out", str(prepared), "--draws", str(DRAWS), "--seed", "6"])
    assert (prepared / "bin/corpus.json").exists()


def publish(folder, packed=True):
    """Write a small set as the published files, and return the pairs by length."""
    pairs = by_length(generate(DRAWS, 7))
    for length, found in pairs.items():
        text = "".join(pair.line + "\n" for pair in found)
        if packed:
            with gzip.open(folder / f"train{length}.gz", "wt") as file:
                file.write(text)
        else:
            (folder / f"train{length}").write_text(text)
    return pairs


def test_published_files_are_read(tmp_path):
    (tmp_path / "from").mkdir()
    pairs = publish(tmp_path / "from")
    arguments = ["--out", str(tmp_path / "out"), "--from", str(tmp_path / "from")]
    prepare_logic.main([*arguments, "--train-operators", "3"])
    read = (tmp_path / "out" / "pairs" / "4.tsv").read_text().splitlines()
    assert read == [pair.line for pair in pairs[4]]
    assert {line[-1] for line in split(tmp_path / "out", "train")} == set("123")


@pytest.mark.parametrize(
    "line, message",
    [
        ("#\ta b\tc", "unexpected 'b' after the formula"),
        ("<\ta\t( not a )", "the file says <, the 64 worlds say \\^"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_left(tmp_path, line, message):
    publish(tmp_path, packed=False)
    with open(tmp_path / "train2", "a") as file:
        file.write(line + "\n")
    number = len((tmp_path / "train2").read_text().splitlines())
    with pytest.raises(UserError, match=f"train2:{number}: {message}"):
        prepare_logic.main(["--out", str(tmp_path / "out"), "--from", str(tmp_path)])
    assert not (tmp_path / "out" / "pairs").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--draws 5 --from f", "--draws has no effect with --from"),
        (
            "--draws 0",
            "--draws: 0 is not a whole number from 1 up; see diverse-mha prepare-logic --help",
        ),
        ("--train-operators 13", "--train-operators 13: must be at most 12"),
        ("--from nowhere", "nowhere: no such folder"),
        ("--draws 40", "too few to split; give a larger --draws"),
    ],
)
def test_wrong_options_are_refused(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        prepare_logic.main(["--out", str(tmp_path / "out"), *arguments.split()])
