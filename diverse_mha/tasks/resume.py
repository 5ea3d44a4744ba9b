"""What the tasks of this package share: exact resume, checks of the data."""

from pathlib import Path

from diverse_mha.common.errors import OptionError

REBUILD_BATCHES_HELP = (
    "draw the batches of every epoch from its own seed, so that a resumed run sees the batches "
    "of an uninterrupted one; this flag switches that off"
)


def check_data_folder(data: str | None) -> Path:
    """Return the first folder of fairseq's data path.

    Raises:
        OptionError: if there is no such folder, or it holds no dictionary.
    """
    folder = Path(str(data).split(":")[0])
    if not folder.is_dir():
        raise OptionError(f"data folder {folder} is not there; make it with data-prep/")
    if not any(folder.glob("dict*.txt")):
        raise OptionError(
            f"data folder {folder} holds no dict.*.txt; give the folder that "
            "fairseq-preprocess wrote"
        )
    return folder
