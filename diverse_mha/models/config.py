"""Options of the models: fairseq's, flat and typed, and our own.

fairseq's ``TransformerConfig`` is nested: Hydra reads it, but the command line
either crashes on it or ignores part of it. Flattening it here, by walking its
fields, gives one dataclass that both understand, without writing a default or a
help text twice.
"""

from argparse import Namespace
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer.transformer_config import (
    DecoderConfig,
    EncDecBaseConfig,
    QuantNoiseConfig,
    TransformerConfig,
)
from omegaconf import OmegaConf

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


@dataclass
class DisagreeConfig(FlatTransformerConfig):
    """Options of ``transformer_disagree``: those of a stock Transformer."""


def to_namespace(cfg) -> Namespace:
    """Turn what fairseq hands to ``build_model`` into the flat namespace it builds from.

    Options without a value are left out, so that fairseq's own fallbacks (for
    example decoder input width = decoder width) apply.
    """
    if isinstance(cfg, Namespace):
        return cfg
    if OmegaConf.is_config(cfg):
        options = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    elif is_dataclass(cfg):
        options = {f.name: getattr(cfg, f.name) for f in fields(cfg)}
    else:
        options = dict(cfg)
    return Namespace(**{name: value for name, value in options.items() if value is not None})
