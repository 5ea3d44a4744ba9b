"""Pairs of formulas: generated or read, split by length, binarised."""

import gzip
import json

import pytest
from fairseq.data import Dictionary, data_utils

from diverse_mha.corpora.logic.data import FIELDS
from diverse_mha.corpora.logic.generate import generate
from diverse_mha.corpora.logic.pairs import by_length, parse_pair
from tests.corpora.scripts import digest, refused, run

DRAWS = 3000


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logic")
    run("logic", "--out", "out", "--draws", DRAWS, cwd=folder)
    return folder / "out"


def split(folder, name):
    return (folder / f"split/{name}.tsv").read_text().splitlines()


def test_every_pair_is_in_one_split_of_its_length(prepared):
    names = ["train", "valid", *(f"test{n}" for n in range(1, 13))]
    assert {path.stem for path in (prepared / "split").glob("*.tsv")} == set(names)
    everything = by_length(generate(DRAWS, 1))
    seen = [line for name in names for line in split(prepared, name)]
    assert len(seen) == len(set(seen))
    parsed = [parse_pair(line.rpartition("\t")[0]) for line in seen]
    short = {p for n in range(1, 7) for p in everything[n]}
    assert {p for p in parsed if p.length <= 6} == short  # none is lost
    for name in ("train", "valid"):
        assert all(1 <= int(line.rpartition("\t")[2]) <= 6 for line in split(prepared, name))
    for length in range(1, 13):
        lines = split(prepared, f"test{length}")
        assert len(lines) == round(0.1 * len(everything[length])) > 0
        assert {parse_pair(line.rpartition("\t")[0]).length for line in lines} == {length}


def test_bin_holds_what_split_says(prepared):
    assert digest(prepared) == "8f5394b00099"
    bin_folder = prepared / "bin"
    words = {name: Dictionary.load(str(bin_folder / name / "dict.txt")) for name in FIELDS}
    assert words["input0"].symbols[4:] == "a b c d e f and or not ( )".split()
    assert words["label"].symbols[4:] == ["<", ">", "=", "^", "|", "v", "#"]
    columns = [data_utils.load_indexed_dataset(str(bin_folder / f / "test9")) for f in FIELDS]
    read = [
        "\t".join(words[field].string(x) for field, x in zip(FIELDS, row, strict=True))
        for row in zip(*columns, strict=True)
    ]
    assert read == split(prepared, "test9")
    assert json.loads((bin_folder / "corpus.json").read_text())["train_operators"] == 6


def test_published_files_are_read_and_a_wrong_line_is_named(tmp_path):
    pairs = by_length(generate(DRAWS, 7))
    for length, found in pairs.items():
        text = "".join(pair.line + "\n" for pair in found)
        with gzip.open(tmp_path / f"train{length}.gz", "wt") as file:
            file.write(text)
    words = ["--out", "out", "--from", ".", "--train-operators", "3"]
    run("logic", *words, cwd=tmp_path)
    read = (tmp_path / "out/pairs/4.tsv").read_text().splitlines()
    assert read == [pair.line for pair in pairs[4]]
    assert {line[-1] for line in split(tmp_path / "out", "train")} == set("123")
    with gzip.open(tmp_path / "train2.gz", "at") as file:
        file.write("<\ta\t( not a )\n")
    assert "(logic; pairs/ has other files)" in refused("logic", *words, cwd=tmp_path)
    said = refused("logic", *words, "--force", cwd=tmp_path)
    assert f"train2.gz:{len(pairs[2]) + 1}: the file says <, the 64 worlds say ^" in said
