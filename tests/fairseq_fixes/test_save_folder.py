"""The new folder of a refused training is removed, and nothing else."""

import multiprocessing

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.locks import hold
from diverse_mha.fairseq_fixes.save_folder import removed_if_refused

LOG = "train.log"


def refuse(folder, *files, error=UserError):
    """Make a folder with files, then raise an error."""
    with pytest.raises(error), removed_if_refused(folder, (LOG,)):
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            (folder / name).write_text("new")
        raise error("refused")


@pytest.mark.parametrize("files", [(), (LOG,)])
def test_a_new_folder_is_removed_with_its_log_and_new_parents(files, tmp_path):
    refuse(tmp_path / "runs/mine", *files)
    assert not list(tmp_path.iterdir())


def test_parents_with_other_files_stay(tmp_path):
    (tmp_path / "runs/other").mkdir(parents=True)
    refuse(tmp_path / "runs/mine", LOG)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]


@pytest.mark.parametrize("before", [(), (LOG,)])
def test_a_folder_that_existed_stays_as_it_was(before, tmp_path):
    for name in before:
        (tmp_path / name).write_text("old")
    refuse(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [*before]


def test_a_new_folder_stays_if_the_training_has_begun(tmp_path):
    refuse(tmp_path / "mine", LOG, "status.json")
    assert (tmp_path / "mine" / LOG).is_file()


def test_a_new_folder_stays_after_other_errors_and_without_one(tmp_path):
    refuse(tmp_path / "mine", LOG, error=KeyError)
    with removed_if_refused(tmp_path / "yours"):
        (tmp_path / "yours").mkdir()
    assert (tmp_path / "mine" / LOG).is_file() and (tmp_path / "yours").is_dir()


def test_a_new_folder_is_removed_when_asked(tmp_path):
    """Another process may have refused the training, with an exit code."""
    for files in ((LOG,), (LOG, "status.json")):
        with removed_if_refused(tmp_path / "mine", (LOG,)) as remove:
            (tmp_path / "mine").mkdir()
            for name in files:
                (tmp_path / "mine" / name).touch()
            remove()
        assert (tmp_path / "mine").exists() is (len(files) > 1)


def _hold(folder, held, done):
    hold(folder)
    held.set()
    done.wait(60)


def test_a_new_folder_stays_if_another_training_uses_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    with pytest.raises(UserError), removed_if_refused(tmp_path / "mine", (LOG,)):
        (tmp_path / "mine").mkdir()
        other = context.Process(target=_hold, args=(tmp_path / "mine", held, done))
        other.start()
        assert held.wait(60)
        raise UserError("refused")
    done.set()
    other.join(60)
    assert (tmp_path / "mine").is_dir()
