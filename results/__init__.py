"""The study's published runs, and the program that prints their tables."""
