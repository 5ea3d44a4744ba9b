"""Options of the sentence classifier, and its shapes."""

from dataclasses import dataclass, field, fields, make_dataclass

from fairseq.dataclass import FairseqDataclass

from diverse_mha.common.options import COUNT, option
from diverse_mha.common.typed import with_options
from diverse_mha.models.config import FlatTransformerConfig, SeamConfig
from diverse_mha.models.pooling import POOLINGS
from diverse_mha.models.presets import one_side

# fairseq's options that apply to an encoder, beside ``encoder_...``.
_GENERAL = (
    "activation_fn dropout attention_dropout activation_dropout max_source_positions "
    "no_token_positional_embeddings no_scale_embedding layernorm_embedding "
    "checkpoint_activations offload_activations min_params_to_wrap"
).split()


FlatEncoderConfig = make_dataclass(
    "FlatEncoderConfig",
    [
        (f.name, f.type, field(default=f.default, metadata=dict(f.metadata)))
        for f in fields(FlatTransformerConfig)
        if f.name in _GENERAL or f.name.startswith("encoder_")
    ],
    bases=(FairseqDataclass,),
    namespace={"__module__": __name__},
)


@dataclass
class ClassifierOptions:
    """Options of pooling and classifier."""

    pooling: str = option(
        "mean",
        "how a sentence becomes one vector: mean (over its positions) or queries (attention of "
        "trainable queries to them)",
        choices=POOLINGS,
    )
    pooling_queries: int = option(
        2,
        "number of trainable queries, with --pooling queries",
        legal=COUNT,
    )
    classifier_layers: int = option(2, "number of linear layers of the classifier", legal=COUNT)


ClassifierConfig = with_options(FairseqDataclass, fields(ClassifierOptions), "ClassifierConfig")


@dataclass
class SentenceClassifierConfig(ClassifierConfig, SeamConfig, FlatEncoderConfig):
    """Options of ``sentence_classifier``: fairseq's for encoders, the seams', and ours."""


CLASSIFIER_SHAPES = {
    "": {},
    "_tiny": one_side("encoder", embed_dim=128, ffn_embed_dim=256, layers=2, attention_heads=4),
    # Li et al. 2021, section 4.3: 2 layers, width 256, dropout 0.2, two queries, a classifier
    # of three layers. Heads and the ratio of feed-forward width are those of Base.
    "_logic": {
        **one_side("encoder", embed_dim=256, ffn_embed_dim=1024, layers=2, attention_heads=8),
        "dropout": 0.2,
        "pooling": "queries",
        "pooling_queries": 2,
        "classifier_layers": 3,
    },
    # Section 4.2: six layers as in Base, their mean, an MLP.
    "_probing": {
        **one_side("encoder", embed_dim=512, ffn_embed_dim=2048, layers=6, attention_heads=8),
        "pooling": "mean",
        "classifier_layers": 2,
    },
}
