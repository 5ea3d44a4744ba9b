"""Training: one run, a recipe, its curve, and the tables of the papers, which take many."""
