"""Tests of diverse_mha.corpora."""
