"""The papers' tables as data, and the runner that fills them: ``diverse-mha reproduce``.

:mod:`.papers` reads ``tables/``, a TOML file a paper. A cell of a table names an experiment
(:mod:`.experiments`), a measure of its result (:mod:`.measures`) and the paper's value. A scale
turns the experiment into a run (:mod:`.plan`) of a recipe in ``configs/``. Cells with equal
settings share a run.
"""
