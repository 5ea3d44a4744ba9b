"""How similar heads are, on plain tensors: CKA, SVCCA, divergence. No fairseq."""
