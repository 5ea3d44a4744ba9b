"""Tests, in folders named like those of the package."""
