"""Drophead and the loss terms on models of Hugging Face transformers, without fairseq.

| file | what |
|---|---|
| ``attention.py`` | the attention function that models call, and which modules call it |
| ``states.py`` | head states of one batch, and the loss of the terms |
| ``terms.py`` | ``HeadTerms``: options, registration and restoring |
| ``trainer.py`` | the terms in a ``Trainer`` |
"""

from diverse_mha.common.errors import UserError

try:
    from diverse_mha.hub.terms import HeadTerms
except ImportError as error:
    if error.name is None or error.name.partition(".")[0] != "transformers":
        raise
    raise UserError(
        "diverse_mha.hub: needs transformers 5; pip install 'transformers>=5' accelerate"
    ) from None

__all__ = ["HeadTerms"]
