"""Tests of the patches of fairseq."""
