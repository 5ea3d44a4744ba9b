"""Measures on plain tensors, without fairseq: CKA, SVCCA, divergence, word alignment."""
