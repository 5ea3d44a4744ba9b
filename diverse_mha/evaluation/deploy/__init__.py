"""Export of checkpoints, and translation of plain text."""
