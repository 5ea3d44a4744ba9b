"""From records of heads to loss terms: a file a method, and all of them together.

Every module in this folder is imported here, so a file with a term of its own registers it by
lying here.
"""

from diverse_mha.common.methods import import_siblings
from diverse_mha.criterions.terms.base import TERMS, Term
from diverse_mha.criterions.terms.combined import DiversityTerms

__all__ = ["TERMS", "DiversityTerms", "Term"]

import_siblings(__name__, __path__)
