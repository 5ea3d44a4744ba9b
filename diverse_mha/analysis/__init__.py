"""Measures of how much heads differ, on plain tensors and on whole checkpoints."""
