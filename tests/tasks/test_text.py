"""Text tasks: options and checks of the data folder."""

import shutil

import pytest
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from diverse_mha.corpora.binarise import binarise
from diverse_mha.tasks.data_files import check_split, splits_in
from diverse_mha.tasks.exact_resume import HalfPrecisionState


@pytest.mark.parametrize(
    "name", ["exact_translation", "exact_language_modeling", "sentence_classification"]
)
def test_tasks_rebuild_batches_and_save_half_precision_state(name):
    assert issubclass(TASK_REGISTRY[name], HalfPrecisionState)
    assert TASK_DATACLASS_REGISTRY[name]().rebuild_batches is True


def test_missing_language_is_reported(tmp_path):
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\n")
    config = TASK_DATACLASS_REGISTRY["exact_translation"](
        data=f"{tmp_path}", source_lang="fr", target_lang="en"
    )
    message = r"holds no dict.fr.txt, only dict.de.txt, dict.en.txt; give its languages as --sou"
    with pytest.raises(ValueError, match=message):
        TASK_REGISTRY["exact_translation"].setup_task(config)
    # Commands that read a checkpoint have no such options.
    message = "holds no dict.fr.txt, .*; the checkpoint is a translation model; .*languages$"
    with pytest.raises(ValueError, match=message):
        TASK_REGISTRY["exact_translation"].setup_task(config, from_checkpoint=True)
    config.source_lang = "False"  # fairseq-hydra-train reads ``no`` as False
    with pytest.raises(ValueError, match='recipe is a word such as no, which .* quote it: "no"'):
        TASK_REGISTRY["exact_translation"].setup_task(config)


@pytest.mark.parametrize(
    ("name", "there", "message"),
    [
        (
            "exact_translation",
            ["dict.txt", "train.idx"],
            "holds no language pair, only train; give another folder, or --task exact_language_",
        ),
        (
            "exact_language_modeling",
            ["dict.de.txt", "dict.en.txt"],
            "holds no dict.txt, only dict.de.txt, dict.en.txt; .* or --task exact_translation$",
        ),
    ],
)
def test_data_of_another_task_is_reported(name, there, message, tmp_path):
    for file in there:
        (tmp_path / file).write_text("a 1\n")
    with pytest.raises(ValueError, match=message):
        TASK_REGISTRY[name].setup_task(TASK_DATACLASS_REGISTRY[name](data=f"{tmp_path}"))


def test_translation_data_of_a_language_models_checkpoint_is_reported(tmp_path):
    (tmp_path / "dict.de.txt").write_text("a 1\n")
    config = TASK_DATACLASS_REGISTRY["exact_language_modeling"](data=f"{tmp_path}")
    with pytest.raises(ValueError, match="the checkpoint is a language model; give a folder of te"):
        TASK_REGISTRY["exact_language_modeling"].setup_task(config, from_checkpoint=True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"a 1\n\xff\xfe 1\n", "Incorrect encoding"), (b"a 1\na 1\n", "Duplicate")],
)
def test_damaged_dictionary_is_reported(content, reason, tmp_path):
    (tmp_path / "dict.txt").write_bytes(content)
    config = TASK_DATACLASS_REGISTRY["exact_language_modeling"](data=f"{tmp_path}")
    with pytest.raises(ValueError, match=f"dict.txt: not a fairseq dictionary .{reason}.*again$"):
        TASK_REGISTRY["exact_language_modeling"].setup_task(config)


@pytest.mark.parametrize("combine", [True, False])
def test_second_part_of_a_split_and_second_folder_are_checked(tmp_path, combine):
    for name in ("one", "two"):
        binarise(tmp_path / name, {"input0": {"a": 1}}, {"train": {"input0": ["a a", "a"]}})
        part = tmp_path / name / "input0"
        for ending in ("idx", "bin"):
            shutil.copy(part / f"train.{ending}", part / f"train1.{ending}")
            shutil.copy(part / f"train.{ending}", part / f"training.{ending}")
    (part / "training.bin").write_bytes(b"")
    both = f"{tmp_path}/one/input0:{part}"
    check_split(both, "train", combine)
    (part / "train1.bin").write_bytes(b"")
    if combine:
        message = "two/input0/train1.bin: cut off, as it has 0 bytes"
        with pytest.raises(ValueError, match=message):
            check_split(both, "train", combine)
    else:
        check_split(both, "train", combine)
    assert splits_in(both) == "train, train1, training"
    assert splits_in(f"{tmp_path}:{part}") == "train, train1, training"
