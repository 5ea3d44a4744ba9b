"""What the tasks of this package share: exact resume, whole splits, checks of the data."""

from pathlib import Path

from diverse_mha.errors import OptionError

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


class WholeSplits:
    """Keeps every sentence of a validation or test split; goes before a fairseq task.

    fairseq-fixed drops the last batch of a split if its size is not a multiple of
    ``--required-batch-size-multiple`` (8 by default): scores would be over 1,008 of
    1,014 sentences. In training this only leaves some sentences to the next epoch.
    """

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """Do what fairseq's task does, without dropping what is not trained on."""
        if dataset is not self.datasets.get("train"):
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **kwargs)
