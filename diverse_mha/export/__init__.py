"""Exports models for other programs: stock fairseq, CTranslate2, transformers."""
