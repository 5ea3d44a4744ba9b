"""The tasks; importing this registers them with fairseq."""

from diverse_mha.fairseq_fixes import install  # noqa: F401  first of all
from diverse_mha.tasks import sentence_classification, text  # noqa: F401
