"""The papers' tables as lists of runs: ``diverse-mha reproduce``.

:mod:`.papers` reads ``tables/``, which has one TOML file per paper. A cell of a table names an
experiment, a measure of its result (:mod:`.measures`) and the paper's value. At a given scale, an
experiment becomes a run of a recipe (:mod:`.runs`), by one command, ``scripts/run.sh``.
:mod:`.runner` carries out missing runs, and :mod:`.printer` prints their numbers beside the
paper's. Cells with equal experiments share a run.
"""
