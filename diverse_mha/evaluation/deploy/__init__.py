"""Models out of fairseq: exported checkpoints, and translation of plain text."""
