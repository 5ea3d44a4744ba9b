"""Attention heads that differ usefully: four papers in one fairseq plugin.

``--user-dir diverse_mha`` imports this package, which registers every
architecture, task and criterion. Without fairseq (absent, or not importable on
this Python) the tensor functions in ``diverse_mha.regularizers`` and
``diverse_mha.analysis`` still work; ``diverse-mha doctor`` says what is wrong.
"""

__version__ = "0.1.0"

try:
    import fairseq as _fairseq
except Exception:  # whatever stops fairseq stops fairseq-train itself, loudly
    _fairseq = None

if _fairseq is not None:
    from diverse_mha import compat, criterions, models, tasks  # noqa: F401
