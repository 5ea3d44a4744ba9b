"""Tasks ``exact_translation`` and ``exact_language_modeling``: exact resume and checked data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.files import check_data_folder
from diverse_mha.tasks.data_files import check_form, check_split, dictionaries_named, splits_in
from diverse_mha.tasks.exact_resume import HalfPrecisionState


@dataclass
class ExactResumeOptions:
    """Options of every task of this package."""

    rebuild_batches: bool = field(
        default=True,
        metadata={
            "help": "draw the batches of every epoch from its own seed, so that a resumed run sees "
            "the batches of an uninterrupted one; this flag switches that off"
        },
    )
    allow_other_dictionary: bool = field(
        default=False,
        metadata={
            "help": "start from a checkpoint whose dictionary has other symbols, so that its rows "
            "are trained for other words; default: refused"
        },
    )


class ExactResume(HalfPrecisionState):
    """Mixin for fairseq's tasks: exact resume, and one-line errors for unusable data."""

    # What to do if a dictionary is missing, as parts of the error.
    cure: tuple[str | Option, ...] = (
        "give its languages as ", Option("source_lang"), " and ", Option("target_lang"),
        ", or another folder",
    )  # fmt: skip
    # The same for a command that reads a checkpoint.
    cure_of_checkpoint = "the checkpoint is a translation model; give pairs of its languages"

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs) -> Any:
        """Check the data folder and load the dictionaries."""
        folder = check_data_folder(cfg.data)
        try:
            with dictionaries_named(folder):
                return super().setup_task(cfg, **kwargs)
        except FileNotFoundError as error:
            dictionaries = ", ".join(sorted(path.name for path in folder.glob("dict*.txt")))
            if Path(error.filename).name in ("dict.False.txt", "dict.True.txt"):
                raise UserError(
                    "a language in the recipe is a word such as no, which YAML reads as True or "
                    'False; quote it: "no"'
                ) from error
            # A command that reads a checkpoint has no such options.
            cure = (cls.cure_of_checkpoint,) if kwargs.get("from_checkpoint") else cls.cure
            raise UserError(
                f"data folder {folder} holds no {Path(error.filename).name}, only {dictionaries}; ",
                *cure,
            ) from error
        except Exception as error:
            if "Could not infer language pair" not in str(error):
                raise
            raise UserError(
                f"data folder {folder} holds no language pair, only {splits_in(folder)}; give "
                "another folder, or ",
                Option("task", "exact_language_modeling"),
            ) from error

    # As fairseq's translation and language_modeling have it, which differ from their base.
    def load_dataset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, split, epoch=1, combine=False, **kwargs
    ) -> Any:
        """Load a split; raise an error in one line if its files are missing or damaged."""
        check_split(self.cfg.data, split, combine)
        check_form(self.cfg.data, getattr(self.cfg, "dataset_impl", None))
        try:
            return super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        except FileNotFoundError as error:
            raise UserError(
                f"data folder {self.cfg.data} holds no split {split!r}; it has "
                f"{splits_in(self.cfg.data)}"
            ) from error
        except AssertionError as error:
            if "same number of examples" not in str(error):
                raise
            raise UserError(
                f"split {split!r} in {self.cfg.data} has source and target sides of different "
                "length; run fairseq-preprocess on two files with a line for every pair"
            ) from error


@dataclass
class ExactTranslationConfig(ExactResumeOptions, TranslationConfig):
    """Options of ``exact_translation``: those of ``translation``, and exact resume."""


@register_task("exact_translation", dataclass=ExactTranslationConfig)
class ExactTranslationTask(ExactResume, TranslationTask):
    """fairseq's ``translation``; a resumed run draws the same batches as an uninterrupted one."""


@dataclass
class ExactLanguageModelingConfig(ExactResumeOptions, LanguageModelingConfig):
    """Options of ``exact_language_modeling``: those of ``language_modeling``, and exact resume."""


@register_task("exact_language_modeling", dataclass=ExactLanguageModelingConfig)
class ExactLanguageModelingTask(ExactResume, LanguageModelingTask):
    """fairseq's ``language_modeling``; resumed and uninterrupted runs draw the same batches."""

    cure = ("give a folder of text for a language model, or ", Option("task", "exact_translation"))
    cure_of_checkpoint = "the checkpoint is a language model; give a folder of text for one"

    @classmethod  # fairseq's task says args, against its base, and is called by position
    def setup_task(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, cfg: Any, **kwargs
    ) -> Any:
        """Check the options and the data folder, and load the dictionary."""
        for name in ("self_target", "past_target"):
            if getattr(cfg, name, False) is True:
                why = ": language models here predict the next token; leave it out"
                raise UserError(Option(name, True), why)
        return super().setup_task(cfg, **kwargs)

    def __init__(self, args, *rest, **kwargs):
        super().__init__(args, *rest, **kwargs)
        # fairseq's task leaves self.cfg None, but fairseq reads rebuild_batches from it.
        self.cfg = args
