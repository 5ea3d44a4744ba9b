"""Options of the models: fairseq's options, flat and typed, our own options, and named shapes.

The command line does not read fairseq's nested ``TransformerConfig``. Its fields are flattened here
into one dataclass that Hydra and the command line understand. A shape is a table of options that
differ from the defaults, named by the suffix of an architecture (``transformer_disagree`` +
``_iwslt_de_en``). If fairseq has an architecture with this suffix, fairseq defines the shape.
"""

import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, make_dataclass
from functools import partial
from typing import Any, Optional, cast

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
    register_model,
    register_model_architecture,
)
from fairseq.models.transformer.transformer_config import (
    DecoderConfig,
    EncDecBaseConfig,
    QuantNoiseConfig,
    TransformerConfig,
)
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from omegaconf import OmegaConf

from diverse_mha import methods  # noqa: F401  registers the methods of the seams
from diverse_mha.attention import AGGREGATION, DROPHEAD, LOGITS, PROJECTIONS
from diverse_mha.common.typed import register_options, with_options
from diverse_mha.models.pruned_heads import PrunedOptions

SEAMS = (PROJECTIONS, AGGREGATION, LOGITS, DROPHEAD)
#: Options of the shape, which an architecture with a suffix sets.
SHAPE = {
    f"{side}_{name}"
    for side in ("encoder", "decoder")
    for name in "embed_dim ffn_embed_dim layers attention_heads input_dim output_dim".split()
}
_GROUPS = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}


def _flat_field(name: str, source) -> tuple:
    kind, default = source.type, source.default
    # fairseq interpolates the defaults of the decoder's input and output dimension.
    if isinstance(default, str) and default.startswith("${"):
        kind, default = Optional[int], None
    if name.endswith("layers_to_keep"):  # declared as a list, but parsed from "0,2,4"
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
    """Return our options of every model: those of the seams, and the pruned heads."""
    return [*(f for seam in SEAMS for f in seam.options()), *fields(PrunedOptions)]


SeamConfig = with_options(FairseqDataclass, seam_options(), "SeamConfig")


@dataclass
class DiverseConfig(SeamConfig, FlatTransformerConfig):
    """Options of encoder-decoder models: fairseq's and ours."""


@dataclass
class LanguageModelConfig(SeamConfig, TransformerLanguageModelConfig):
    """Options of language models: fairseq's and ours.

    ``decoder_input_dim`` and ``decoder_output_dim`` may be None, for the model's width. fairseq's
    default is 512 for every model, with a projection to and from another width.
    """

    # fairseq's type is int; the docstring says what None means.
    decoder_input_dim: Optional[int] = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default=512, metadata={"help": "decoder input dimension"}
    )
    decoder_output_dim: Optional[int] = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default=512, metadata={"help": "decoder output dimension"}
    )


def to_namespace(cfg) -> Namespace:
    """Turn the argument of ``build_model`` into the flat namespace that fairseq builds from.

    Options without a value are left out, so that fairseq's own fallbacks apply.
    """
    if isinstance(cfg, Namespace):
        return Namespace(**vars(cfg))  # a copy, as the original goes into the checkpoint
    options: dict[str, Any]
    if OmegaConf.is_config(cfg):
        container = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        options = cast("dict[str, Any]", container)
    elif is_dataclass(cfg):
        options = {f.name: getattr(cfg, f.name) for f in fields(cfg)}
        # Leave out interpolations, whose configuration does not exist here.
        options = {k: v for k, v in options.items() if not str(v).startswith("${")}
    else:
        options = dict(cfg)
    return Namespace(**{name: value for name, value in options.items() if value is not None})


def one_side(side: str, **shape: int) -> dict:
    """Return the options that set the shape of one side, ``encoder`` or ``decoder``."""
    return {f"{side}_{name}": value for name, value in shape.items()}


def _namesakes(stock: str) -> tuple[str, ...]:
    """Return the suffixes of the architectures that fairseq has for its model ``stock``."""
    model = MODEL_REGISTRY[stock]
    names = (name for name, cls in ARCH_MODEL_REGISTRY.items() if cls is model)
    own = (name for name in names if name == stock or name.startswith(f"{stock}_"))
    return tuple(name.removeprefix(stock) for name in own)


# Suffixes of the shapes that fairseq defines.
TRANSLATION_NAMESAKES = _namesakes("transformer")
LANGUAGE_MODEL_NAMESAKES = _namesakes("transformer_lm")

# Shapes of our own.
_SMALL = {"embed_dim": 128, "ffn_embed_dim": 256, "layers": 2, "attention_heads": 4}
TRANSLATION_SHAPES = {"_small": one_side("encoder", **_SMALL) | one_side("decoder", **_SMALL)}

_WIDTHS = ("decoder_input_dim", "decoder_output_dim")


def _language_model(**shape: int) -> dict:
    widths = dict.fromkeys(_WIDTHS)  # None: the model's width
    return widths | one_side("decoder", normalize_before=True, **shape)


LANGUAGE_MODEL_SHAPES = {
    "_tiny": _language_model(**_SMALL),
    # Yun et al. 2021, section 6.1; the paper gives no width of the feed-forward block.
    "_ptb": _language_model(embed_dim=256, ffn_embed_dim=1024, layers=2, attention_heads=4),
}

# Family of architectures -> defaults of the family; every family takes every option.
FAMILIES = {
    "disagree": {},
    # "Aggregation" of Li et al. 2021: EM routing in the first two encoder layers.
    "routing": {"aggregation": "em-routing", "aggregation_encoder_layers": "1,2"},
    "coda": {"logits": "mlp", "attention_noise": 1.0},
}

LANGUAGE_MODEL_FAMILIES = {
    **FAMILIES,
    "routing": {"aggregation": "em-routing", "aggregation_decoder_layers": "1,2"},
}


def with_defaults(config: type, name: str, defaults: dict) -> type:
    """Derive a dataclass with some defaults changed."""
    known = {f.name: f for f in fields(config)}
    changed = [
        (option, known[option].type, field(default=value, metadata=dict(known[option].metadata)))
        for option, value in defaults.items()
    ]
    # Otherwise every one of a hundred shapes compiles these methods and writes its signature as a
    # docstring, which takes three quarters of the time.
    own = {"__module__": __name__, "__init__": _set_options, "__doc__": f"Options of {name}."}
    return make_dataclass(
        name, changed, bases=(config,), namespace=own, init=False, eq=False, repr=False
    )


def _set_options(config, **options) -> None:
    """Set the fields of a dataclass; its ``__init__``, with keyword arguments only."""
    for f in fields(config):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        setattr(config, f.name, options.pop(f.name, default))
    if options:
        raise TypeError(f"{type(config).__name__} has no option {', '.join(options)}")


def register_family(
    model: type,
    name: str,
    shapes: dict[str, dict],
    defaults: dict | None = None,
    *,
    stock: str = "",
    namesakes: tuple[str, ...] = (),
) -> None:
    """Register ``model`` under ``name`` + suffix for every shape.

    Args:
        model: model class with a ``config`` attribute, its dataclass of options.
        name: name of the family.
        shapes: by suffix, options of our own shapes that differ from ``model.config``.
        defaults: options of the whole family that differ from ``model.config``.
        stock: name of fairseq's model.
        namesakes: suffixes for which fairseq's architecture ``stock`` + suffix sets the shape.
    """
    stocks = {suffix: ARCH_CONFIG_REGISTRY[stock + suffix] for suffix in namesakes}
    shapes = {**{suffix: _shape_of(stocks[suffix], model.config) for suffix in stocks}, **shapes}
    for suffix, shape in shapes.items():
        class_name = "".join(part.capitalize() for part in (name + suffix).split("_"))
        config = with_defaults(model.config, class_name + "Config", {**(defaults or {}), **shape})
        own = {"config": config, "declared": model.config, "add_args": classmethod(_add_args)}
        own["named_shape"] = bool(suffix)
        if class_name == model.__name__:
            class_name += "Base"  # the family's own class keeps its name
        cls = type(class_name, (model,), {**own, "__module__": model.__module__})
        setattr(sys.modules[model.__module__], class_name, cls)  # so that models pickle
        arch = name + suffix
        # Register without the dataclass, for which fairseq would build a Hydra node at once.
        _REGISTERED[arch] = register_model(arch)(cls)
        register_options("model", MODEL_DATACLASS_REGISTRY, arch, cls, config)
        complete = partial(_complete, model=cls, stock=stocks.get(suffix))
        register_model_architecture(arch, arch)(complete)


def _add_args(cls, parser) -> None:
    """Declare the options without defaults, so that a flag means the same in every shape."""
    gen_parser_from_dataclass(parser, cls.declared(), delete_default=True)


# Every architecture of ours, by name.
_REGISTERED: dict[str, type] = {}


def _grow() -> None:
    """Add the options of a newly registered method to every architecture."""
    for name, cls in _REGISTERED.items():
        cls.declared = with_options(cls.declared, seam_options())
        cls.config = with_options(cls.config, seam_options())
        register_options("model", MODEL_DATACLASS_REGISTRY, name, cls, cls.config)


for _seam in SEAMS:
    _seam.on_change(_grow)


def _shape_of(stock: Callable[[Namespace], None], config: type) -> dict:
    """Return the options that a fairseq architecture sets to other values than ``config``."""
    args = Namespace()
    _apply(stock, args, config)
    defaults = {f.name: f.default for f in fields(config)}
    shape = {k: v for k, v in vars(args).items() if k in defaults and v != defaults[k]}
    # None: computed later from the width of the model.
    return shape | {width: None for width in _WIDTHS if hasattr(args, width)}


def _apply(stock: Callable[[Namespace], None], args: Namespace, config: type) -> None:
    stock(args)
    for f in fields(config):
        value = getattr(args, f.name, None)
        if isinstance(value, bool) and type(f.default) is int:
            setattr(args, f.name, int(value))  # fairseq's functions set False for 0


def _complete(args: Namespace, *, model: type, stock: Callable[[Namespace], None] | None) -> None:
    """Set the options that the command line leaves out; called by fairseq's parser."""
    config = model.config
    if stock is not None:
        _apply(stock, args, config)
    for f in fields(config):
        taken_elsewhere = f.name == "_name" or str(f.default).startswith("${")
        if not (taken_elsewhere or hasattr(args, f.name)):
            setattr(args, f.name, f.default)
    for width in _WIDTHS:
        if getattr(args, width, 0) is None:
            setattr(args, width, args.decoder_embed_dim)
    if getattr(args, "bf16", False):
        args.tpu = False  # fairseq's parser takes --bf16 to mean a TPU
