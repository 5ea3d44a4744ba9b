"""Folders of the package and its recipes; checks of data folders and output paths."""

import os
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import link_target

#: The package, for fairseq's ``--user-dir``, and the folder around it: in a clone its root.
USER_DIR = Path(__file__).resolve().parents[1]
ROOT = USER_DIR.parent
#: The recipes: inside the package in a wheel, beside it in a clone.
CONFIGS = USER_DIR / "configs" if (USER_DIR / "configs").is_dir() else ROOT / "configs"

MAKE_DATA = "make it with a script of data-prep/ or with fairseq-preprocess"


def check_data_exists(folder: Path, error: type[UserError] = UserError) -> None:
    """Raise ``error`` for a missing data folder."""
    if not folder.is_dir():
        raise error(f"{folder}: no such data folder; {MAKE_DATA}")


def check_data_folder(
    data: str | Path,
    dictionaries: Sequence[str] = ("dict*.txt",),
    error: type[UserError] = UserError,
) -> Path:
    """Return the first folder of fairseq's data path, which joins folders by ``:``.

    Raises:
        error: if a folder is missing, or no file of the first matches ``dictionaries``.
    """
    folders = [Path(name) for name in str(data).split(os.pathsep)]
    for folder in folders:
        check_data_exists(folder, error)
    if not any(any(folders[0].glob(pattern)) for pattern in dictionaries):
        inside = folders[0] / "bin"  # the layout of data-prep/
        there = any(any(inside.glob(pattern)) for pattern in dictionaries)
        cure = inside if there else "the folder that fairseq-preprocess wrote (its --destdir)"
        raise error(f"data folder {folders[0]} holds no dict.*.txt; give {cure}")
    return folders[0]


def check_file(option: str, path: str | Path, ending: str = "") -> None:
    """Raise an error if ``path`` cannot be written or lacks ``ending``.

    Missing parent folders are allowed; ``option`` names the path in messages.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{option} {path}: is a folder; give a file name")
    if path.exists() and not path.is_file():
        raise UserError(f"{option} {path}: is no regular file, and would be replaced; name another")
    if not path.name.endswith(ending):
        raise UserError(f"{option} {path}: must end in {ending}")
    _check_above(option, path, link_target(path).parent)


def check_folder(option: str, path: str | Path) -> None:
    """Raise an error if a folder cannot be written to; it and its parents may be missing."""
    _check_above(option, Path(path), Path(path))


def check_own_folder(option: str, path: str | Path) -> None:
    """Refuse what :func:`check_folder` does, and a folder of trainings, whose files would mix."""
    check_folder(option, path)
    run = next((found for n in (0, 1, 2) for found in Path(path).glob("*/" * n + "*.pt")), None)
    if run is not None:
        raise UserError(f"{option} {path}: holds a training ({run}); give a folder of its own")


def _check_above(option: str, path: Path, folder: Path) -> None:
    folder = folder.absolute()
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise UserError(f"{option} {path}: {folder} is not a folder; choose another place")
    if not os.access(folder, os.W_OK | os.X_OK) or folder.is_relative_to("/proc"):
        raise UserError(f"{option} {path}: {folder} cannot be written to; choose another place")
