"""The models; importing this registers them with fairseq."""

from diverse_mha.fairseq_fixes import install  # noqa: F401  first of all
from diverse_mha.models import language_model, sentence_classifier, translation  # noqa: F401
