"""The tasks. Importing this package registers them with fairseq."""

from diverse_mha.fairseq_fixes import install  # noqa: F401  patch fairseq before using it
from diverse_mha.tasks import sentence_classification, text  # noqa: F401
