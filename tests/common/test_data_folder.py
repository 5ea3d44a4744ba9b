"""A data folder that is not there, or not one, is refused by name."""

import pytest

from diverse_mha.common.errors import OptionError, UserError
from diverse_mha.common.places import check_data_folder


def test_data_folder_is_checked(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such data folder; make it with"):
        check_data_folder(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="holds no dict"):
        check_data_folder(str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dict.en.txt").write_text("a 1\n")
    with pytest.raises(UserError, match=f"holds no dict.*; give {tmp_path}/bin$"):
        check_data_folder(str(tmp_path))
    (tmp_path / "dict.en.txt").write_text("a 1\n")
    with pytest.raises(UserError, match="second: no such data folder"):
        check_data_folder(f"{tmp_path}:{tmp_path}/second")
    (tmp_path / "second").mkdir()  # as in fairseq the dictionaries of the first hold for all
    assert check_data_folder(f"{tmp_path}:{tmp_path}/second") == tmp_path


def test_a_classifiers_dictionaries_are_in_folders(tmp_path):
    (tmp_path / "label").mkdir()
    (tmp_path / "label/dict.txt").write_text("a 1\n")
    with pytest.raises(OptionError, match="holds no dict"):
        check_data_folder(tmp_path, error=OptionError)
    assert check_data_folder(tmp_path, ("dict*.txt", "*/dict.txt")) == tmp_path
