"""Similarity of heads on plain tensors: CKA, SVCCA, divergence. No fairseq."""
