"""Training: one run from a command line or a recipe, and its log."""
