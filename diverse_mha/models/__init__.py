"""The models; importing this registers them with fairseq."""

from diverse_mha.fairseq_fixes import install  # noqa: F401  first of all
from diverse_mha.models.language_model import DiverseLanguageModel
from diverse_mha.models.sentence_classifier import SentenceClassifier
from diverse_mha.models.translation import DiverseTransformer

__all__ = ["DiverseLanguageModel", "DiverseTransformer", "SentenceClassifier"]
