"""Models in the forms of other programs: stock fairseq, CTranslate2, transformers."""
