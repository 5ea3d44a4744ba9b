"""Comparison of systems, over random seeds and sentences."""
