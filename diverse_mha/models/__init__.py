"""The models. Importing this package registers them with fairseq."""

from diverse_mha.fairseq_fixes import install  # noqa: F401  patches fairseq, before the models
from diverse_mha.models import language_model, sentence_classifier, translation  # noqa: F401
