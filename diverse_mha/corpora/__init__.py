"""Corpora: what they consist of, how they are fetched, and how they become fairseq's data."""
