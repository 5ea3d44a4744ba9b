"""Propositional logic: formulas, the relation between two, and pairs of them made from a seed.

The data of the logical-inference experiment (Bowman et al. 2014; Li et al. 2021, section 4.3).
Nothing here needs fairseq or torch.
"""
