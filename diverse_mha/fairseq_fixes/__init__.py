"""Patches of fairseq, one file a subject; you need none of it to understand or extend a method.

Each file begins with what breaks without it, and in which version of fairseq. Importing
``diverse_mha`` with fairseq applies all of them (``install``).
"""
