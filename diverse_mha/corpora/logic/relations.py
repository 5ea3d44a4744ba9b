"""The seven relations of natural logic between two formulas.

Let L and R be the sets of worlds in which the left and the right formula are true, U the set of
all worlds; neither L nor R is empty or U (MacCartney and Manning 2009; Bowman et al. 2014,
Table 1). Exactly one relation holds:

=====  ======================  ==========================================================
sign   name                    holds if
=====  ======================  ==========================================================
``=``  equivalence             L = R
``<``  forward entailment      L is a proper subset of R
``>``  reverse entailment      L is a proper superset of R
``^``  negation                L and R have no world in common, and together they are U
``|``  alternation             no world in common, and together they are not U
``v``  cover                   a world in common, and together they are U, and neither
                               contains the other
``#``  independence            none of these
=====  ======================  ==========================================================
"""

from diverse_mha.corpora.logic.formula import EVERYWHERE, Formula

RELATIONS = ("<", ">", "=", "^", "|", "v", "#")


def relation(left: Formula, right: Formula) -> str:
    """Return the sign of the relation between two contingent formulas."""
    for side, formula in (("left", left), ("right", right)):
        if not formula.contingent:
            kind = "tautology" if formula.worlds else "contradiction"
            raise ValueError(f"the {side} side is a {kind}: {formula.text}")
    common, together = left.worlds & right.worlds, left.worlds | right.worlds
    if left.worlds == right.worlds:
        return "="
    if common == left.worlds:
        return "<"
    if common == right.worlds:
        return ">"
    if not common:
        return "^" if together == EVERYWHERE else "|"
    return "v" if together == EVERYWHERE else "#"
