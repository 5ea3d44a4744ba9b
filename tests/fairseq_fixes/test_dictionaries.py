"""Another vocabulary of the same size is not taken for a model's."""

import os
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from diverse_mha.common import vocabulary
from diverse_mha.common.errors import UserError
from diverse_mha.common.vocabulary import sha256_of_dictionary, sha256_of_symbols
from diverse_mha.fairseq_fixes.dictionaries import (
    KEY,
    check_dictionaries,
    check_same,
    check_start_dictionaries,
    describe,
    recorded,
)
from tests.toy import dictionary_of


def task(source: str, target: str | None = None, data="data", **more) -> SimpleNamespace:
    """Return a stand-in for a task. A letter of ``source`` and ``target`` is a symbol."""
    return SimpleNamespace(
        source_dictionary=dictionary_of(source),
        target_dictionary=dictionary_of(target or source),
        cfg=SimpleNamespace(data=str(data)),
        **more,
    )


@pytest.mark.parametrize("lines", ["a 3\nb 2\n", "\u2581x 1\n\u00a0 7\n", "é 0\n</w> 9\n# 1", ""])
def test_the_hash_of_a_file_is_that_of_fairseqs_symbols(lines, tmp_path):
    file = tmp_path / "dict.txt"
    file.write_text(lines, encoding="utf-8")
    assert sha256_of_dictionary(file) == sha256_of_symbols(Dictionary.load(str(file)).symbols)


def test_symbols_and_their_order_count_but_not_their_frequencies(tmp_path):
    texts = ["a 3\nb 2\n", "a 1\nb 9\n", "b 3\na 2\n", "a 3\nc 2\n", "a 3\nb 2\nc 1\n"]
    hashes = []
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_text(text)
        hashes.append(sha256_of_dictionary(tmp_path / str(number)))
    assert hashes[0] == hashes[1] and len(set(hashes)) == 4


def test_a_record_is_plain_and_names_every_dictionary():
    record = describe(task("ab", "xy", data="one:two", labels=["no", "yes"]))
    assert record.keys() == {"source", "target", "label"}
    assert {entry["data"] for entry in record.values()} == {"one"}, "fairseq reads the first folder"
    assert [entry["symbols"] for entry in record.values()] == [6, 6, 6]
    assert len({entry["sha256"] for entry in record.values()}) == 3
    assert all(type(value) in (str, int) for entry in record.values() for value in entry.values())
    assert describe(SimpleNamespace(cfg=None)) == {}, "a task without dictionaries"


@pytest.mark.parametrize(
    "malformed", [None, 5, [], {"source": 3}, {"source": {"sha256": "x"}}, {"a": {"sha256": [1]}}]
)
def test_a_malformed_record_is_none(malformed):
    assert recorded({"extra_state": {KEY: malformed}}) == recorded({"extra_state": None}) == {}


@pytest.mark.parametrize(
    ("now", "name"),
    [
        (task("ba", "ba"), "dictionary"),
        (task("ab", "ac"), "target dictionary"),
        (task("ab", labels=["yes", "no"]), "label dictionary"),
    ],
)
def test_the_dictionary_that_differs_is_named(now, name):
    own = task("ab", data="own", labels=["no", "yes"])
    record = recorded({"extra_state": {KEY: describe(own)}})
    message = f"^x.pt: was trained with the {name} of own .6 symbols, SHA-256 [0-9a-f]{{8}}., but "
    with pytest.raises(UserError, match=message + r"data has another .6 .*; give the data"):
        check_dictionaries("x.pt", record, now)
    assert check_dictionaries("x.pt", record, task("ab", data="elsewhere", labels=["no", "yes"]))
    # Averaged checkpoints are compared with each other.
    with pytest.raises(UserError, match=f"with the {name} of own .*, but y.pt has .*; do not mix"):
        check_same("x.pt", record, "y.pt", describe(now), "do not mix models")


@pytest.fixture
def old(tmp_path, monkeypatch):
    """Function that saves a checkpoint without a record in ``run/``, trained on a data folder."""
    monkeypatch.setattr(vocabulary, "_unchecked", set())
    monkeypatch.chdir(tmp_path)
    for name in ("run", "own"):
        (tmp_path / name).mkdir()
    for language, symbols in (("de", "ab"), ("en", "xy")):
        dictionary_of(symbols).save(str(tmp_path / f"own/dict.{language}.txt"))
        os.utime(tmp_path / f"own/dict.{language}.txt", (1e9, 1e9))

    def save(data, save_dir="run") -> str:
        cfg = {"task": {"data": str(data)}, "checkpoint": {"save_dir": save_dir}}
        torch.save({"model": {}, "cfg": cfg}, tmp_path / "run/x.pt")
        return str(tmp_path / "run/x.pt")

    return save


@pytest.mark.parametrize("data", ["own", "ABSOLUTE/own", "own:more"])
def test_without_a_record_the_data_folder_of_the_run_is_compared(old, data, tmp_path, caplog):
    path = old(data.replace("ABSOLUTE", str(tmp_path)))
    assert check_dictionaries(path, {}, task("ab", "xy", data="copy"))
    with pytest.raises(UserError, match=r"trained with the source dictionary of .*own/dict.de.txt"):
        check_dictionaries(path, {}, task("ba", "xy"))
    assert not caplog.records


@pytest.mark.parametrize("case", ["same-folder", "gone", "moved", "newer", "damaged"])
def test_what_cannot_be_told_apart_is_said_once(case, old, tmp_path, caplog):
    path = old("gone" if case == "gone" else "own", save_dir="moved" if case == "moved" else "run")
    data = tmp_path / "own" if case == "same-folder" else "other"
    if case == "newer":  # prepared anew after the training
        os.utime(path, (1e9 - 1, 1e9 - 1))
    if case == "damaged":
        (tmp_path / "own/dict.en.txt").write_text("damaged")
        os.utime(tmp_path / "own/dict.en.txt", (1e9, 1e9))
    for _ in range(2):
        assert not check_dictionaries(path, {}, task("ba", data=data))
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: not checked whether {data} has its dictionaries, which checkpoints of stock "
        "fairseq and of earlier versions do not record"
    ]


@pytest.mark.parametrize("option", [None, "restore_file", "finetune_from_model"])
def test_a_training_gives_rows_to_other_words_only_if_the_user_says_so(option, caplog):
    trainer = SimpleNamespace(task=task("ba"), cfg=SimpleNamespace(task=SimpleNamespace()))
    record = describe(task("ab", data="own"))
    cure = "another --save-dir$" if option is None else "--tgtdict.*add --allow-other-dictionary"
    with pytest.raises(UserError, match=cure):
        check_start_dictionaries(trainer, option, "x.pt", record)
    trainer.cfg.task.allow_other_dictionary = True
    check_start_dictionaries(trainer, option, "x.pt", record)
    (said,) = caplog.records
    assert said.getMessage().endswith("allowed by --allow-other-dictionary")
