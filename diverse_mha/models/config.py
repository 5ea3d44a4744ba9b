"""Options of the models: fairseq's, flat and typed, and our own.

fairseq's ``TransformerConfig`` is nested: Hydra reads it, but the command line
either crashes on it or ignores part of it. Flattening it here, by walking its
fields, gives one dataclass that both understand, without writing a default or a
help text twice.
"""

from argparse import Namespace
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer.transformer_config import (
    DecoderConfig,
    EncDecBaseConfig,
    QuantNoiseConfig,
    TransformerConfig,
)
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from omegaconf import OmegaConf

from diverse_mha.aggregation import AGGREGATIONS, SOFTMAX_OVER
from diverse_mha.attention.cascade import CASCADES

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


def _option(default, text: str):
    return field(default=default, metadata={"help": text})


def _layers_option(component: str):
    return _option(
        None,
        f"{component} layers whose heads are aggregated by --aggregation: numbers from 1 "
        "separated by commas, all, or none; default: none",
    )


@dataclass
class SeamConfig(FairseqDataclass):
    """Our options: what sits on the seams of the attention modules."""

    aggregation: ChoiceEnum(AGGREGATIONS) = _option(
        "linear",
        "how the outputs of the heads become one vector: linear (concatenate and project), "
        "simple-routing or em-routing (Li et al. 2021)",
    )
    aggregation_encoder_layers: Optional[str] = _layers_option("encoder self-attention")
    aggregation_cross_layers: Optional[str] = _layers_option("encoder-decoder attention")
    aggregation_decoder_layers: Optional[str] = _layers_option("decoder self-attention")
    routing_iterations: int = _option(3, "iterations of the routing algorithm")
    routing_capsules: Optional[int] = _option(
        None, "number of output capsules, a divisor of the width; default: the width"
    )
    routing_activation: bool = _option(
        True,
        "EM routing: scale each capsule by its activation probability (paper); this flag "
        "switches that off, as in the authors' released code",
    )
    routing_softmax_over: ChoiceEnum(SOFTMAX_OVER) = _option(
        "capsules",
        "simple routing: what the agreement is normalised over, capsules (paper) or heads "
        "(authors' released code)",
    )
    routing_pre_norm: bool = _option(
        False, "layer norm on the head outputs before routing, as in the authors' released code"
    )
    routing_post_norm: bool = _option(
        False, "layer norm on the routed result, an option of the authors' released code"
    )
    cascade: ChoiceEnum(CASCADES) = _option(
        "none",
        "what a layer's attention logits get from the layer before: none, residual (plain "
        "addition, RealFormer) or mlp (a small network across heads, Zheng et al. 2021)",
    )
    cascade_hidden_ratio: int = _option(
        4, "width of the cascade's hidden layers, in multiples of the number of heads"
    )
    cascade_depth: int = _option(2, "number of hidden layers of the cascade's network")
    attention_noise: float = _option(
        0.0, "standard deviation of the Gaussian noise on the attention logits in training"
    )
    drophead: float = _option(
        0.0,
        "probability that the output of a head is zeroed in training, drawn for each sentence "
        "and head; the others are scaled up (Yun et al. 2021, whose rate is 0.1)",
    )
    compile: bool = _option(
        False,
        "train the layers without routing or cascade through torch.compile; where it does not "
        "work, one line in the log says so and training goes on without",
    )


@dataclass
class DiverseConfig(SeamConfig, FlatTransformerConfig):
    """Options of encoder-decoder models: fairseq's and ours."""


@dataclass
class LanguageModelConfig(SeamConfig, TransformerLanguageModelConfig):
    """Options of language models: fairseq's and ours.

    Beside fairseq's numbers the widths may be None, for the model's: fairseq's own default is
    512 whatever ``decoder_embed_dim`` is, with a projection between.
    """

    decoder_input_dim: Optional[int] = _option(512, "decoder input dimension")
    decoder_output_dim: Optional[int] = _option(512, "decoder output dimension")


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
