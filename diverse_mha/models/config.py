"""Options of the models: fairseq's, flat and typed, and our own.

fairseq's ``TransformerConfig`` is nested: Hydra reads it, but the command line
either crashes on it or ignores part of it. Flattening it here, by walking its
fields, gives one dataclass that both understand, without writing a default or a
help text twice.
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
    """Our options for every model: what sits on the seams of the attention modules."""
    return [f for seam in SEAMS for f in seam.options()]


def method_options() -> tuple[str, ...]:
    """Names of the options that make a method: with other values it is another model."""
    return tuple(f.name for f in seam_options())


SeamConfig = with_options(FairseqDataclass, seam_options(), "SeamConfig")


@dataclass
class DiverseConfig(SeamConfig, FlatTransformerConfig):
    """Options of encoder-decoder models: fairseq's and ours."""


@dataclass
class LanguageModelConfig(SeamConfig, TransformerLanguageModelConfig):
    """Options of language models: fairseq's and ours.

    Beside fairseq's numbers the widths may be None, for the model's: fairseq's own default is
    512 whatever ``decoder_embed_dim`` is, with a projection between.
    """

    decoder_input_dim: Optional[int] = field(
        default=512, metadata={"help": "decoder input dimension"}
    )
    decoder_output_dim: Optional[int] = field(
        default=512, metadata={"help": "decoder output dimension"}
    )


def to_namespace(cfg) -> Namespace:
    """Turn what fairseq hands to ``build_model`` into the flat namespace it builds from.

    Options without a value are left out, so that fairseq's own fallbacks (for
    example decoder input width = decoder width) apply.
    """
    if isinstance(cfg, Namespace):
        return Namespace(**vars(cfg))  # what is added to it must not reach the checkpoint
    if OmegaConf.is_config(cfg):
        options = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    elif is_dataclass(cfg):
        options = {f.name: getattr(cfg, f.name) for f in fields(cfg)}
        # References to other parts of the configuration, which is not there.
        options = {k: v for k, v in options.items() if not str(v).startswith("${")}
    else:
        options = dict(cfg)
    return Namespace(**{name: value for name, value in options.items() if value is not None})
