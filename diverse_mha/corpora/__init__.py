"""What shell cannot do for ``data-prep/``: filters, mark-up, subwords, the demo corpus."""
