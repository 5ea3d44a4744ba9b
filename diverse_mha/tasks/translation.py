"""fairseq's translation task with resume that continues exactly."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from diverse_mha.tasks.resume import REBUILD_BATCHES_HELP, ExactResume


@dataclass
class DiverseTranslationConfig(TranslationConfig):
    """Options of ``diverse_translation``: those of ``translation``, and exact resume."""

    rebuild_batches: bool = field(default=True, metadata={"help": REBUILD_BATCHES_HELP})


@register_task("diverse_translation", dataclass=DiverseTranslationConfig)
class DiverseTranslationTask(ExactResume, TranslationTask):
    """Translation; a resumed run draws the same batches as an uninterrupted one."""
