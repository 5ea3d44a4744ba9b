"""fairseq's translation task with resume that continues exactly."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from diverse_mha.common.errors import OptionError
from diverse_mha.tasks.data_files import check_split, dictionaries_named
from diverse_mha.tasks.half_precision import HalfPrecisionState
from diverse_mha.tasks.resume import REBUILD_BATCHES_HELP, check_data_folder


@dataclass
class DiverseTranslationConfig(TranslationConfig):
    """Options of ``diverse_translation``: those of ``translation``, and exact resume."""

    rebuild_batches: bool = field(default=True, metadata={"help": REBUILD_BATCHES_HELP})


@register_task("diverse_translation", dataclass=DiverseTranslationConfig)
class DiverseTranslationTask(HalfPrecisionState, TranslationTask):
    """Translation; a resumed run draws the same batches as an uninterrupted one."""

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        """Check the data folder and load the dictionaries.

        Raises:
            OptionError: if the data folder is missing or holds no dictionaries, or damaged ones.
        """
        folder = check_data_folder(cfg.data)
        with dictionaries_named(folder):
            return super().setup_task(cfg, **kwargs)

    def load_dataset(self, split, epoch=1, combine=False, **kwargs):
        """Load a split.

        Raises:
            OptionError: if it is not there or cut off, or its two sides differ in length.
        """
        check_split(self.cfg.data, split)
        try:
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        except FileNotFoundError as error:
            raise OptionError(
                f"data folder {self.cfg.data} holds no split {split!r} for "
                f"{self.cfg.source_lang}-{self.cfg.target_lang}; name one that it holds, or run "
                "fairseq-preprocess again"
            ) from error
        except AssertionError as error:
            if "same number of examples" not in str(error):
                raise
            raise OptionError(
                f"split {split!r} in {self.cfg.data} has source and target sides of different "
                "length; run fairseq-preprocess on two files with a line for every pair"
            ) from error
