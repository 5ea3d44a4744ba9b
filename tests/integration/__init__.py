"""Tests that drive the real command-line tools end to end."""
