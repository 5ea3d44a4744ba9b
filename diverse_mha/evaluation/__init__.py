"""Evaluation: scores, comparison of systems, translation, alignment, averaging."""
