"""fairseq's language-modelling task with resume that continues exactly."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from diverse_mha.tasks.resume import REBUILD_BATCHES_HELP, ExactResume


@dataclass
class DiverseLanguageModelingConfig(LanguageModelingConfig):
    """Options of ``diverse_language_modeling``: the stock ones, and exact resume."""

    rebuild_batches: bool = field(default=True, metadata={"help": REBUILD_BATCHES_HELP})


@register_task("diverse_language_modeling", dataclass=DiverseLanguageModelingConfig)
class DiverseLanguageModelingTask(ExactResume, LanguageModelingTask):
    """Language modelling; a resumed run draws the batches of an uninterrupted one."""

    def __init__(self, args, *rest, **kwargs):
        super().__init__(args, *rest, **kwargs)
        # The stock task leaves this None, and fairseq reads rebuild_batches from it.
        self.cfg = args
