"""Options of the models: fairseq's, flat and typed, and our own.

The command line does not read fairseq's nested ``TransformerConfig``. Its fields are flattened
here into one dataclass that Hydra and the command line understand.
"""

from argparse import Namespace
from dataclasses import Field, dataclass, field, fields, is_dataclass, make_dataclass
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer.transformer_config import (
    DecoderConfig,
    EncDecBaseConfig,
    QuantNoiseConfig,
    TransformerConfig,
)
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from omegaconf import OmegaConf

from diverse_mha import methods  # noqa: F401  registers what the seams can be
from diverse_mha.attention import AGGREGATION, DROPHEAD, LOGITS
from diverse_mha.common.typed import with_options

SEAMS = (AGGREGATION, LOGITS, DROPHEAD)
_GROUPS = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}


def _flat_field(name: str, source) -> tuple:
    kind, default = source.type, source.default
    if isinstance(default, str) and default.startswith("${"):  # decoder input and output width
        kind, default = Optional[int], None
    if name.endswith("layers_to_keep"):  # typed as a list, read as "0,2,4"
        kind = Optional[str]
    return name, kind, field(default=default, metadata=dict(source.metadata))


def _flat_fields() -> list[tuple]:
    flat = []
    for outer in fields(TransformerConfig):
        if outer.name in _GROUPS:
            inner = (f for f in fields(_GROUPS[outer.name]) if f.name != "_name")
            flat += [_flat_field(f"{outer.name}_{f.name}", f) for f in inner]
        elif outer.name != "_name":
            flat.append(_flat_field(outer.name, outer))
    return flat


FlatTransformerConfig = make_dataclass(
    "FlatTransformerConfig",
    _flat_fields(),
    bases=(FairseqDataclass,),
    namespace={"__module__": __name__},
)


def seam_options() -> list[Field]:
    """Return our options of every model, those of the seams."""
    return [f for seam in SEAMS for f in seam.options()]


SeamConfig = with_options(FairseqDataclass, seam_options(), "SeamConfig")


@dataclass
class DiverseConfig(SeamConfig, FlatTransformerConfig):
    """Options of encoder-decoder models: fairseq's and ours."""


@dataclass
class LanguageModelConfig(SeamConfig, TransformerLanguageModelConfig):
    """Options of language models: fairseq's and ours.

    Input and output width may be None, for the model's width. fairseq's default is 512 for every
    model, with a projection between.
    """

    decoder_input_dim: Optional[int] = field(
        default=512, metadata={"help": "decoder input dimension"}
    )
    decoder_output_dim: Optional[int] = field(
        default=512, metadata={"help": "decoder output dimension"}
    )


def to_namespace(cfg) -> Namespace:
    """Turn the argument of ``build_model`` into the flat namespace from which fairseq builds.

    Options without a value are left out, so that fairseq's own fallbacks apply.
    """
    if isinstance(cfg, Namespace):
        return Namespace(**vars(cfg))  # a copy, as the original goes into the checkpoint
    if OmegaConf.is_config(cfg):
        options = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    elif is_dataclass(cfg):
        options = {f.name: getattr(cfg, f.name) for f in fields(cfg)}
        # References to a configuration that does not exist here.
        options = {k: v for k, v in options.items() if not str(v).startswith("${")}
    else:
        options = dict(cfg)
    return Namespace(**{name: value for name, value in options.items() if value is not None})
