"""The tasks; importing this registers them with fairseq."""

from diverse_mha.fairseq_fixes import install  # noqa: F401  first of all
from diverse_mha.tasks.sentence_classification import SentenceClassificationTask
from diverse_mha.tasks.text import ExactLanguageModelingTask, ExactTranslationTask

__all__ = [
    "ExactLanguageModelingTask",
    "ExactTranslationTask",
    "SentenceClassificationTask",
]
