"""fairseq's language-modelling task with resume that continues exactly."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from diverse_mha.common.errors import OptionError
from diverse_mha.tasks.data_files import check_split, dictionaries_named, splits_in
from diverse_mha.tasks.half_precision import HalfPrecisionState
from diverse_mha.tasks.resume import REBUILD_BATCHES_HELP, check_data_folder


@dataclass
class DiverseLanguageModelingConfig(LanguageModelingConfig):
    """Options of ``diverse_language_modeling``: the stock ones, and exact resume."""

    rebuild_batches: bool = field(default=True, metadata={"help": REBUILD_BATCHES_HELP})


@register_task("diverse_language_modeling", dataclass=DiverseLanguageModelingConfig)
class DiverseLanguageModelingTask(HalfPrecisionState, LanguageModelingTask):
    """Language modelling; a resumed run draws the batches of an uninterrupted one."""

    def __init__(self, args, *rest, **kwargs):
        super().__init__(args, *rest, **kwargs)
        # The stock task leaves this None, and fairseq reads rebuild_batches from it.
        self.cfg = args

    @classmethod
    def setup_task(cls, args, **kwargs):
        """Check the data folder and load the dictionary.

        Raises:
            OptionError: if the data folder is missing or holds no dictionary, or a damaged one.
        """
        folder = check_data_folder(args.data)
        with dictionaries_named(folder):
            return super().setup_task(args, **kwargs)

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        """Load a split.

        Raises:
            OptionError: if it is not there or cut off.
        """
        check_split(self.cfg.data, split)
        try:
            return super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        except FileNotFoundError as error:
            raise OptionError(
                f"data folder {self.cfg.data} holds no split {split!r}; it has "
                f"{splits_in(self.cfg.data)}"
            ) from error
