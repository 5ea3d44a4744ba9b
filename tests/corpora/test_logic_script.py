"""Pairs of logical formulas, generated or published."""

import gzip
import json
import random

import pytest
from fairseq.data import Dictionary, data_utils

from diverse_mha.corpora.logic import FIELDS, RELATIONS, VARIABLES, generate, grow, length
from tests.corpora.scripts import digest, loaded_hashes, refused, run
from tests.reference_logic import as_python, reference_relation, satisfying

DRAWS = 3000


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logic")
    run("logic", "--out", "out", "--draws", DRAWS, cwd=folder)
    return folder / "out"


def split(folder, name):
    return (folder / f"split/{name}.tsv").read_text().splitlines()


def by_length(lines):
    found = {n: {} for n in range(13)}
    for line in lines:
        found[length(line)].setdefault(line)
    return {n: list(own) for n, own in found.items()}


def test_generated_pairs_have_the_relation_of_their_label():
    first = list(generate(200, 8))
    assert first == list(generate(200, 8)) != list(generate(200, 9))
    for sign, left, right in (line.split("\t") for line in list(generate(3000, 5))[::10] + first):
        used = {v for v in f"{left} {right}".split() if v in VARIABLES}
        assert len(used) <= 4
        assert sign == reference_relation(left, right)
        assert all(0 < len(satisfying(as_python(side))) < 64 for side in (left, right))
    assert {line[0] for line in first} == set(RELATIONS)


def test_frequencies_of_formulas_follow_the_procedure():
    """A formula is a bare variable with probability 5/9 * 2/3.

    With ``limit`` below 2, every formula is a variable, negated with probability 1/3.
    """
    generator, count = random.Random(2), 20_000
    sides = [grow(generator, "abcd").text for _ in range(count)]
    bare = sum(side in VARIABLES for side in sides) / count
    assert bare == pytest.approx(10 / 27, abs=0.015)  # within 4 standard deviations
    negated = sum(side.startswith("( not") for side in sides) / count
    assert negated == pytest.approx(1 / 3, abs=0.015)
    short = [grow(generator, "ab", limit=1).text for _ in range(2000)]
    assert set(short) == {"a", "b", "( not a )", "( not b )"}
    # The limit falls from 12 to 6, 3 and 1, so there are at most three levels of and/or and
    # eight variables.
    assert max(sum(token in VARIABLES for token in side.split()) for side in sides) == 8


def test_binarised_data_equals_the_split_files(prepared):
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
    made = json.loads((bin_folder / "corpus.json").read_text())
    assert made["train_operators"] == 6
    assert made["dictionaries"] == loaded_hashes(
        bin_folder, "input0/dict.txt", "input1/dict.txt", "label/dict.txt"
    )


def test_published_files_are_read_and_a_wrong_line_is_reported(tmp_path):
    pairs = by_length(generate(DRAWS, 7))
    for n, found in pairs.items():
        with gzip.open(tmp_path / f"train{n}.gz", "wt") as file:
            file.writelines(f"{line}\n" for line in found)
    arguments = ["--out", "out", "--from", ".", "--train-operators", "3"]
    run("logic", *arguments, cwd=tmp_path)
    read = (tmp_path / "out/pairs/4.tsv").read_text().splitlines()
    assert read == pairs[4]
    assert {line[-1] for line in split(tmp_path / "out", "train")} == set("123")
    with gzip.open(tmp_path / "train2.gz", "at") as file:
        file.write("<\ta\t( not g )\n")
    assert "(step pairs: --files=" in refused("logic", *arguments, cwd=tmp_path)
    printed = refused("logic", *arguments, "--force", cwd=tmp_path)
    assert f"train2.gz:{len(pairs[2]) + 1}: unknown token 'g'; formulas have a b" in printed
    (tmp_path / "train2.gz").write_bytes((tmp_path / "train3.gz").read_bytes()[:99])
    assert "train2.gz is damaged" in refused("logic", *arguments, "--force", cwd=tmp_path)
    (tmp_path / "train2.gz").unlink()
    assert "lacks train2 (plain" in refused("logic", *arguments, "--force", cwd=tmp_path)


def test_published_pairs_are_verified_and_not_mixed_with_generated_pairs(tmp_path):
    for words in (["--from", "."], ["--draws", "5"]):
        printed = refused("logic", "--out", "out", "--published", *words, cwd=tmp_path)
        assert "has no effect with" in printed and printed.count("leave out one of them") == 1
    (tmp_path / "out/download").mkdir(parents=True)
    (tmp_path / "out/download/train0").write_text("= a b\n")
    printed = refused("logic", "--out", "out", "--published", cwd=tmp_path)
    assert "train0 is not the published file" in printed and "delete it" in printed
