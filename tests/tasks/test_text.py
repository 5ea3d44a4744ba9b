"""The tasks: options, and a data folder that is not one."""

from types import SimpleNamespace

import pytest
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from diverse_mha.tasks import text
from diverse_mha.tasks.text import ExactResume, check_data_folder


@pytest.mark.parametrize("name", ["diverse_translation", "diverse_language_modeling"])
def test_tasks_are_registered_and_rebuild_batches(name):
    assert TASK_REGISTRY[name].__module__.startswith("diverse_mha.")
    assert TASK_DATACLASS_REGISTRY[name]().rebuild_batches is True


def test_data_folder_is_checked(tmp_path):
    with pytest.raises(ValueError, match="nowhere: no such data folder; make it with"):
        check_data_folder(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="holds no dict"):
        check_data_folder(str(tmp_path))
    (tmp_path / "dict.en.txt").write_text("a 1\n")
    assert check_data_folder(f"{tmp_path}:{tmp_path}/second") == tmp_path


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("same number of examples", ValueError, "split 'test' in bin has source and target sides"),
        ("a mistake of ours", AssertionError, "a mistake of ours"),
    ],
)
def test_only_what_is_said_of_lengths_is_about_lengths(said, kind, message, monkeypatch):
    class Stock:
        cfg = SimpleNamespace(data="bin")

        def load_dataset(self, split, epoch, combine):
            raise AssertionError(said)

    class Task(ExactResume, Stock):
        pass

    monkeypatch.setattr(text, "check_split", lambda data, split: None)
    with pytest.raises(kind, match=message):
        Task().load_dataset("test")
