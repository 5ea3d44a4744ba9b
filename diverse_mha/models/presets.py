"""Named shapes, shared by every model family.

A shape is a table of options that differ from fairseq's defaults; its name is the
suffix of an architecture (``transformer_disagree`` + ``_iwslt_de_en``). fairseq's
architecture functions run on the command line only. Here every named shape is a
model of its own, with a dataclass whose defaults are the shape's: the same name
gives the same model through ``fairseq-train --arch`` and as Hydra's ``model._name``.
"""

from dataclasses import field, fields, make_dataclass

from fairseq.models import ARCH_CONFIG_REGISTRY, register_model


def _both_sides(**shape) -> dict:
    sides = ("encoder", "decoder")
    return {f"{side}_{name}": value for side in sides for name, value in shape.items()}


TRANSLATION_SHAPES = {
    "": {},
    "_tiny": _both_sides(embed_dim=128, ffn_embed_dim=256, layers=2, attention_heads=4),
    "_iwslt_de_en": _both_sides(embed_dim=512, ffn_embed_dim=1024, layers=6, attention_heads=4),
    "_wmt_en_de": _both_sides(embed_dim=512, ffn_embed_dim=2048, layers=6, attention_heads=8),
    "_wmt_en_de_big": _both_sides(embed_dim=1024, ffn_embed_dim=4096, layers=6, attention_heads=16),
}

LANGUAGE_MODEL_SHAPES = {
    "": {},
    "_tiny": {
        "decoder_embed_dim": 128,
        "decoder_ffn_embed_dim": 256,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
    },
    # Yun et al. 2021, section 5.4; the paper gives no width of the feed-forward block.
    "_ptb": {
        "decoder_embed_dim": 256,
        "decoder_ffn_embed_dim": 1024,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
    },
    # The shape of Baevski and Auli 2019, which Zheng et al. 2021 train.
    "_wiki103": {
        "decoder_embed_dim": 1024,
        "decoder_ffn_embed_dim": 4096,
        "decoder_layers": 16,
        "decoder_attention_heads": 8,
        "dropout": 0.3,
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
        "adaptive_input": True,
        "adaptive_input_cutoff": "20000,60000",
        "adaptive_softmax_cutoff": "20000,60000",
        "adaptive_softmax_dropout": 0.2,
        "tie_adaptive_weights": True,
        "tie_adaptive_proj": True,
        "no_decoder_final_norm": True,
    },
}

# What sets the families apart; any of them takes any option.
FAMILIES = {
    "disagree": {},
    # "Aggregation" of Li et al. 2021: EM routing in the first two encoder layers.
    "routing": {"aggregation": "em-routing", "aggregation_encoder_layers": "1,2"},
    "coda": {"cascade": "mlp", "attention_noise": 1.0},
}

LANGUAGE_MODEL_FAMILIES = {
    **FAMILIES,
    "routing": {"aggregation": "em-routing", "aggregation_decoder_layers": "1,2"},
}


def with_defaults(config: type, name: str, defaults: dict) -> type:
    """Derive a dataclass that differs from ``config`` in some defaults only.

    Raises:
        KeyError: if ``config`` has no option of that name.
    """
    known = {f.name: f for f in fields(config)}
    changed = [
        (option, known[option].type, field(default=value, metadata=dict(known[option].metadata)))
        for option, value in defaults.items()
    ]
    return make_dataclass(name, changed, bases=(config,), namespace={"__module__": __name__})


def register_family(
    model: type, name: str, shapes: dict[str, dict], defaults: dict | None = None
) -> None:
    """Register ``model`` under ``name`` + suffix for every shape.

    Args:
        model: model class with a ``config`` attribute, its dataclass of options.
        name: name of the family, and of the member with the empty suffix.
        shapes: options that differ from ``model.config``, by suffix.
        defaults: options that differ from ``model.config`` in the whole family.
    """
    for suffix, shape in shapes.items():
        class_name = "".join(part.capitalize() for part in (name + suffix).split("_"))
        config = with_defaults(model.config, class_name + "Config", {**(defaults or {}), **shape})
        member = type(class_name, (model,), {"config": config, "__module__": model.__module__})
        register_model(name + suffix, dataclass=config)(member)
        ARCH_CONFIG_REGISTRY[name + suffix] = _keep_bf16_off_tpu


def _keep_bf16_off_tpu(args) -> None:
    """Undo fairseq's option parser, which takes --bf16 to mean that a TPU is there."""
    if getattr(args, "bf16", False):
        args.tpu = False
