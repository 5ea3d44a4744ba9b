"""Stock fairseq Transformers as models that show their heads."""

from argparse import Namespace
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer_lm import TransformerLanguageModel

from diverse_mha.models.config import to_namespace

# A model with exactly the parameters of the stock one.
TWINS = {
    TransformerModel: "transformer_disagree",
    TransformerLanguageModel: "transformer_lm_disagree",
}


def architecture(options: Any) -> str:
    """Name of the model that a checkpoint's model options are for."""
    return str(getattr(options, "_name", None) or getattr(options, "arch", None))


def model_class(name: str) -> type | None:
    """Class that fairseq has registered under the name of a model or an architecture."""
    return ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)


def is_stock(name: str) -> bool:
    """Whether a stock model of this name can be rebuilt as one of ours."""
    return model_class(name) in TWINS


def build_twin(options: Any, task: Any):
    """Build our model of the shape of a stock checkpoint, into which its parameters load.

    ``options`` are the model options in the checkpoint.

    Raises:
        OptionError: if the stock model has a form that ours does not have.
    """
    name = architecture(options)
    twin = MODEL_REGISTRY[TWINS[model_class(name)]]
    known = to_namespace(options)
    if name in ARCH_CONFIG_REGISTRY:
        # Fills in what older versions did not save, as fairseq does on loading.
        ARCH_CONFIG_REGISTRY[name](known)
    if not getattr(known, "decoder_normalize_before", False):
        known.no_decoder_final_norm = False  # without effect there, and ours refuses it
    filled = {**vars(to_namespace(twin.config())), **vars(known)}
    return twin.build_model(Namespace(**filled), task)
