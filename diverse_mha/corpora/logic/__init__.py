"""Propositional logic: pairs of formulas and their relation, generated from a seed.

The data of logical inference (Bowman et al. 2014; Li et al. 2021, section 4.3). No fairseq, no
torch.
"""
