"""From records of heads to loss terms: a file a method, and all of them together."""

from diverse_mha.criterions.terms.combined import DiversityTerms

__all__ = ["DiversityTerms"]
