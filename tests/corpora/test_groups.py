"""Held-out groups of sentence pairs, and the Tatoeba corpus, which is split with them."""

import gzip
import random
import zipfile
from collections import deque
from itertools import combinations

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.choose import read_pairs
from diverse_mha.corpora.groups import LARGEST, connect, hold_out_groups
from tests.corpora.miniature import publish
from tests.corpora.scripts import digest, refused, run
from tests.corpora.test_choose import sides, write

SPLITS = ("train", "valid", "test")
WORDS = ["--valid", "4", "--test", "6", "--merges", "150", "--workers", "1"]
TEXTS = ("Tatoeba.de-en.de", "Tatoeba.de-en.en")


def components(pairs):
    """Slow oracle: breadth-first search over all pairs that share a side."""
    groups, left = [], set(range(len(pairs)))
    while left:
        queue = deque([min(left)])
        left.discard(queue[0])
        group = []
        while queue:
            group.append(queue.popleft())
            near = {n for n in left if any(map(str.__eq__, pairs[n], pairs[group[-1]]))}
            left -= near
            queue.extend(near)
        groups.append(sorted(group))
    return groups


def random_pairs(seed, count=400):
    """Return pairs with many shared sentences, some empty sides and one large component."""
    chance = random.Random(seed)
    pairs = [(f"d{chance.randrange(300)}", f"e{chance.randrange(900)}") for _ in range(count)]
    pairs += [("d-many", f"e-many{n}") for n in range(LARGEST + 1)]
    pairs += chance.choices(pairs, k=20) + [("", "e1"), ("d1", " "), ("", "")]
    chance.shuffle(pairs)
    return pairs


def split(folder, pairs, valid, test):
    paths = [sides(folder, name) for name in SPLITS]
    corpus = write(folder, "whole", *zip(*pairs, strict=True))
    message = hold_out_groups(corpus, *paths, sizes=(valid, test), languages=("de", "en"))
    return [list(read_pairs(path)) for path in paths], message


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_the_connected_components(seed):
    pairs = random_pairs(seed)
    groups = components(pairs)
    assert connect(pairs) == groups and 1 in map(len, groups) and max(map(len, groups)) > LARGEST


@pytest.mark.parametrize("seed", range(5))
def test_no_sentence_occurs_in_two_splits_and_every_pair_in_one(tmp_path, seed):
    pairs = random_pairs(seed)
    splits, message = split(tmp_path, pairs, 20, 31)
    assert [len(part) for part in splits[1:]] == [20, 31]
    for one, other in combinations(splits, 2):
        for side in (0, 1):
            assert not {pair[side] for pair in one} & {pair[side] for pair in other}
    different = [pair for pair in dict.fromkeys(pairs) if all(map(str.strip, pair))]
    assert sorted(sum(splits, [])) == sorted(different)
    for part in splits:
        assert part == [pair for pair in different if pair in set(part)]  # the corpus' order
    assert message == f"dropped: 3 empty, {len(pairs) - 3 - len(different)} repeated"
    assert split(tmp_path, pairs, 20, 31) == (splits, message)


def test_groups_above_the_limit_are_for_training(tmp_path):
    sizes = {"a": LARGEST, "b": LARGEST + 1, "c": LARGEST, "d": LARGEST}
    pairs = [(name, f"{name}{n}") for name, size in sizes.items() for n in range(size)]
    (train, *_), _ = split(tmp_path, pairs, LARGEST, 2 * LARGEST)
    assert {source for source, _ in train} == {"b"} and len(train) == LARGEST + 1


def test_sentences_with_the_same_tokens_are_the_same_sentence(tmp_path):
    pairs = [("„Gut“", "Good"), ('"Gut"', "Fine"), ("Ja", "It’s so"), ("Nun", "It's so")]
    many = [("Nein", f"No {n}") for n in range(LARGEST + 1)]
    (train, *held), _ = split(tmp_path, pairs + many, 2, 2)
    assert train == many and sorted(held) == sorted([pairs[:2], pairs[2:]])
    with pytest.raises(UserError, match="too large for a corpus of 15 different pairs"):
        split(tmp_path, pairs + many, 1, 1)  # both groups have two pairs


@pytest.mark.parametrize(
    "pairs, valid, test",
    [
        ([("a", "A"), ("b", "B"), ("c", "C")], 1, 2),  # none is left for training
        ([("a", "A"), ("b", "B")], 2000, 1),
        ([("a", "A"), ("a", "B"), ("c", "C"), ("c", "D"), ("e", "E")], 1, 3),  # groups of 2, 2, 1
    ],
)
def test_too_small_a_corpus_is_refused(tmp_path, pairs, valid, test):
    with pytest.raises(UserError) as caught:
        split(tmp_path, pairs, valid, test)
    assert str(caught.value) == (
        f"--valid {valid:,} and --test {test:,}: too large for a corpus of {len(pairs)} different "
        "pairs; give smaller numbers"
    )
    assert not sides(tmp_path, "train")[0].exists()


def unpacked(folder):
    """Write the miniature of Tatoeba as two plain files; return their folder."""
    folder.mkdir()
    with zipfile.ZipFile(publish("tatoeba", folder.parent / "mini") / "de-en.txt.zip") as archive:
        archive.extractall(folder)
    return folder


def test_tatoeba_is_prepared_from_the_archive_or_its_texts(tmp_path):
    text = unpacked(tmp_path / "text")
    run("tatoeba", "--from", "mini", "--out", "archive", *WORDS, cwd=tmp_path)
    run("tatoeba", "--from", "text", "--out", "plain", *WORDS, cwd=tmp_path)
    (text / f"{TEXTS[0]}.gz").write_bytes(gzip.compress((text / TEXTS[0]).read_bytes()))
    (text / TEXTS[0]).unlink()
    printed = run("tatoeba", "--from", "text", "--out", "plain", *WORDS, cwd=tmp_path).stdout
    assert printed.count("(already done)") == 5
    assert digest(tmp_path / "archive") == digest(tmp_path / "plain")


def test_tatoeba_drops_empty_and_repeated_pairs(tmp_path):
    text = unpacked(tmp_path / "text")
    for name in TEXTS:
        lines = (text / name).read_text().splitlines()
        (text / name).write_text("\n".join([*lines, "", *lines[:3]]) + "\n")
    printed = run("tatoeba", "--from", "text", "--out", "out", *WORDS, cwd=tmp_path).stdout
    assert "50 train, 4 valid, 6 test pairs; dropped: 1 empty, 3 repeated" in printed
    with (text / TEXTS[0]).open("a") as file:
        file.write("Ende.\n")
    printed = refused("tatoeba", "--from", "text", "--out", "out", *WORDS, cwd=tmp_path)
    assert "out holds a corpus prepared from other files or options" in printed
    printed = refused("tatoeba", "--from", "text", "--out", "new", *WORDS, cwd=tmp_path)
    assert "the two sides differ in length" in printed
    (text / TEXTS[1]).unlink()
    assert f"has no {TEXTS[1]}" in refused("tatoeba", "--from", "text", *WORDS, cwd=tmp_path)


def test_tatoeba_names_the_sizes_that_do_not_fit(tmp_path):
    unpacked(tmp_path / "text")
    printed = refused("tatoeba", "--from", "text", "--out", "out", cwd=tmp_path)
    assert printed.startswith(
        "error: --valid 2,000 and --test 2,000: too large for a corpus of 60 "
    )
    assert not (tmp_path / "out").exists()
