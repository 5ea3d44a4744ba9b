"""Loads stock fairseq Transformers as our models."""

from argparse import Namespace
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_lm import TransformerLanguageModel

from diverse_mha.models.config import to_namespace

# A model with the parameters of the stock one.
TWINS = {
    TransformerModel: "transformer_disagree",
    TransformerLanguageModel: "transformer_lm_disagree",
}


def build_twin(twin: str, name: str, options: Any, task: Any):
    """Build our model of the shape of a stock checkpoint, into which its parameters load.

    ``twin`` is one of ``TWINS``; ``name`` and ``options`` are the model's in the checkpoint.
    """
    known = to_namespace(options)
    if name in ARCH_CONFIG_REGISTRY:
        # Adds options that older versions did not save, as fairseq does.
        ARCH_CONFIG_REGISTRY[name](known)
    if not getattr(known, "decoder_normalize_before", False):
        known.no_decoder_final_norm = False  # without effect there, and ours refuses it
    kind = MODEL_REGISTRY[twin]
    filled = {**vars(to_namespace(kind.config())), **vars(known)}
    return kind.build_model(Namespace(**filled), task)
