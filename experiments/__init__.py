"""The papers' tables as lists of runs: ``diverse-mha reproduce``.

:mod:`.papers` reads ``tables/``, a TOML file a paper. A cell of a table names an experiment, a
measure of its result (:mod:`.measures`) and the paper's value. A scale turns the experiment into a
run of a recipe (:mod:`.runs`), which is one command, ``scripts/run.sh``. :mod:`.runner` carries out
missing runs, and :mod:`.printer` prints their numbers beside the paper's. Equal cells share a run.
"""
