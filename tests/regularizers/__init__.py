"""Tests of the regularizers."""
