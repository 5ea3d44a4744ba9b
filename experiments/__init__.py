"""The papers' tables as data, and the runner that fills them in: ``diverse-mha reproduce``.

``tables/`` has a TOML file a paper, read by :mod:`.papers`. A table is rows of cells; a cell names
an experiment (:mod:`.experiments`), what is read off its result (:mod:`.measures`) and the value of
the paper. At a scale an experiment becomes a run (:mod:`.plan`) of a recipe in ``configs/``, and
two cells that come to the same settings share one run.
"""
