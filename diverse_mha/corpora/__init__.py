"""Corpora: the Python part of ``data-prep/`` (filters, mark-up, subwords, the demo corpus)."""
