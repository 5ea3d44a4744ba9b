"""The tasks; importing this registers them with fairseq."""

from diverse_mha import compat  # noqa: F401  first of all
from diverse_mha.tasks.language_modeling import DiverseLanguageModelingTask
from diverse_mha.tasks.sentence_classification import SentenceClassificationTask
from diverse_mha.tasks.translation import DiverseTranslationTask

__all__ = [
    "DiverseLanguageModelingTask",
    "DiverseTranslationTask",
    "SentenceClassificationTask",
]
