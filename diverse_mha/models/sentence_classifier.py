"""Classifier of sentences, or pairs of sentences, on the encoder: options, shapes and pooling."""

import math
from dataclasses import dataclass, field, fields, make_dataclass

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoderModel
from fairseq.models.transformer import Linear, TransformerConfig, TransformerModelBase
from torch import Tensor, nn

from diverse_mha.attention import Wanted, check_state_names, wanted_of
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import option, read_options, refuse_idle
from diverse_mha.common.ranges import COUNT
from diverse_mha.common.typed import with_options
from diverse_mha.models.base import DiverseModel
from diverse_mha.models.config import (
    FlatTransformerConfig,
    SeamConfig,
    one_side,
    register_family,
    to_namespace,
)
from diverse_mha.models.encoder import DiverseEncoder
from diverse_mha.models.parts import Seams
from diverse_mha.models.refused import check_model_options

POOLINGS = ("mean", "queries")


class MeanPooling(nn.Module):
    """Mean of the vectors x_s at the S real positions: sum_s x_s / S.

    Attributes:
        output_dim: width of the mean, C = ``embed_dim``.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.output_dim = embed_dim

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:
        """Pool sentences (B, S, C) to (B, C).

        ``padding_mask`` is (B, S), True = padding. A sentence of padding alone gives 0.
        """
        real = (~padding_mask).unsqueeze(-1)  # (B, S, 1)
        total = x.masked_fill(~real, 0.0).sum(dim=1)  # (B, C)
        return total / real.sum(dim=1).clamp(min=1)


class QueryPooling(nn.Module):
    """Attention of trainable queries to the real positions, one vector per query.

    a_k = softmax over s of q_k . x_s / sqrt(C); vector k = sum_s a_ks x_s; the vectors are
    concatenated. Li et al. 2021, section 4.3, take two queries ("two trainable queries to obtain
    the fixed-size representation") and give no equation. C is ``embed_dim``, K the number of
    ``queries``.

    Attributes:
        output_dim: width of the concatenated vectors, K * C.
    """

    def __init__(self, embed_dim: int, queries: int):
        super().__init__()
        self.output_dim = queries * embed_dim
        # Queries start as long as layer-normalised positions, so initial attention weights are
        # neither uniform nor one-hot.
        self.queries = nn.Parameter(torch.randn(queries, embed_dim))  # (K, C)

    def forward(self, x: Tensor, padding_mask: Tensor) -> Tensor:
        """Pool sentences (B, S, C) to (B, K * C).

        Padding (B, S), True = padding, is left out. If a sentence has only padding, the
        result is the mean of its padded positions.
        """
        scores = x @ self.queries.t() / math.sqrt(x.size(-1))  # (B, S, K)
        # A finite number, so that a row of padding alone gets no NaN.
        scores = scores.float().masked_fill(padding_mask.unsqueeze(-1), -1e4)
        weights = scores.softmax(dim=1).type_as(x)  # (B, S, K)
        return (weights.transpose(1, 2) @ x).flatten(1)  # (B, K, C) to (B, K * C)


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
    """How a sentence becomes one vector, and how large the classifier on it is.

    ``queries`` is what Li et al. 2021 use for logical inference, and ``mean`` what they use for
    probing tasks.
    """

    pooling: str = option(
        "mean",
        "how a sentence becomes one vector: mean (over its positions) or queries (trainable "
        "queries attend to its positions)",
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
    # Li et al. 2021, section 4.2: six layers as in Base, the mean over positions, an MLP.
    "_probing": {
        **one_side("encoder", embed_dim=512, ffn_embed_dim=2048, layers=6, attention_heads=8),
        "pooling": "mean",
        "classifier_layers": 2,
    },
}


_WORTH = 0.1  # share of the positions that a second pass must save


class SentenceClassifier(DiverseModel, FairseqEncoderModel):
    """Encoder, pooling to one vector per sentence, feed-forward classifier.

    All sentences are encoded separately, in one batch, and the vectors of an example are
    concatenated (Li et al. 2021, sections 4.2 and 4.3). An example has 1 or 2 ``sentences``.
    """

    config = SentenceClassifierConfig

    def __init__(self, encoder, pooling: nn.Module, classifier: nn.Module, sentences: int):
        super().__init__(encoder)
        self.pooling = pooling
        self.classifier = classifier
        self.sentences = sentences

    @classmethod
    def build_model(cls, args, task):
        """Check the options and build the model."""
        if not hasattr(task, "labels"):
            arch = Option("arch", "sentence_classifier")
            raise UserError(arch, " needs ", Option("task", "sentence_classification"))
        args = to_namespace(args)
        check_model_options(args)
        given = read_options(ClassifierOptions, args)
        seams = Seams.from_options(args, ("encoder",))
        nested = TransformerConfig.from_namespace(args)
        width = args.encoder_embed_dim
        embedding = TransformerModelBase.build_embedding(
            nested, task.source_dictionary, width, getattr(args, "encoder_embed_path", None)
        )
        encoder = DiverseEncoder(nested, task.source_dictionary, embedding, seams)
        if given.pooling == "queries":
            pooling = QueryPooling(width, given.pooling_queries)
        else:
            idle = [f for f in fields(ClassifierOptions) if f.name == "pooling_queries"]
            mean, queries = Option("pooling", "mean"), Option("pooling", "queries")
            refuse_idle(args, idle, "with ", mean, "; use it with ", queries)
            pooling = MeanPooling(width)
        classifier = feed_forward(
            task.sentences * pooling.output_dim,
            width,
            len(task.labels),
            layers=given.classifier_layers,
            dropout=args.dropout,
        )
        return cls(encoder, pooling, classifier, task.sentences)

    # fairseq's passes any argument to the encoder; a classifier knows its own.
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_head_states: Wanted = (),
    ) -> tuple[Tensor, dict]:
        """Score the classes of a batch of B examples of n sentences.

        Args:
            src_tokens: (n * B, S) token numbers, padded on the right; the sentences of an example
                are neighbouring rows.
            src_lengths: ignored; tokens show the padding.
            return_head_states: names of ``HeadStates`` to return for every layer of ``encoder``, or
                by component.

        Returns:
            Scores (B, classes), before softmax; and a dict, if wanted with ``head_states``:
            ``{"encoder": [HeadStates, ...]}`` of n * B rows.
        """
        names = wanted_of(check_state_names(return_head_states), "encoder")
        extra = {}
        if names:  # head states must come from one batch
            vectors, extra["head_states"] = self._encode(src_tokens, names)
        else:
            vectors = self._vectors(src_tokens)
        return self.classifier(vectors.view(-1, self.sentences * vectors.size(-1))), extra

    def _encode(self, tokens: Tensor, names: tuple[str, ...] = ()) -> tuple[Tensor, dict]:
        """Return the vectors (n * B, D) of sentences, and the states of the encoder's heads."""
        encoded = self.encoder(tokens, return_head_states=names)
        x = encoded["encoder_out"][0].transpose(0, 1)  # (n * B, S, C)
        vectors = self.pooling(x, encoded["encoder_padding_mask"][0])
        return vectors, {"encoder": encoded.get("head_states", [])}

    def _vectors(self, tokens: Tensor) -> Tensor:
        """Return the vectors (n * B, D) of sentences, in two passes if that saves time on a CPU."""
        groups = lengths = None
        if tokens.device.type == "cpu" and not self._draws_for_the_batch():
            lengths = tokens.ne(self.encoder.padding_idx).sum(dim=1).clamp(min=1)
            groups = split_by_length(lengths)
        if groups is None or lengths is None:
            return self._encode(tokens)[0]
        vectors = [self._encode(tokens[rows, : lengths[rows].max()])[0] for rows in groups]
        return torch.cat(vectors)[torch.cat(groups).argsort()]

    def _draws_for_the_batch(self) -> bool:
        """Return True if one draw of heads or layers to drop is for the batch, so for one pass."""
        if not self.training:
            return False
        dropheads = (getattr(module, "drophead", None) for module in self.encoder.modules())
        by_batch = any(getattr(part, "mask", None) == "batch" for part in dropheads)
        return by_batch or self.encoder.encoder_layerdrop > 0

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Return (log-)probabilities (B, classes) from the result of ``forward``."""
        scores = net_output[0].float()
        return torch.log_softmax(scores, -1) if log_probs else torch.softmax(scores, -1)


def feed_forward(
    input_dim: int, hidden_dim: int, classes: int, *, layers: int, dropout: float
) -> nn.Sequential:
    """Build linear layers, at least 1, with ReLU and dropout between them."""
    modules: list[nn.Module] = []
    for _ in range(layers - 1):
        modules += [Linear(input_dim, hidden_dim), nn.ReLU(), nn.Dropout(dropout)]
        input_dim = hidden_dim
    return nn.Sequential(*modules, Linear(input_dim, classes))


def split_by_length(lengths: Tensor) -> tuple[Tensor, Tensor] | None:
    """Split the rows of a batch, ordered by length, where the two groups have fewest positions.

    With lengths l_1 >= ... >= l_n the first s rows take s l_1 positions, padding counted, and the
    others (n - s) l_{s+1}.

    Args:
        lengths: (n,) whole numbers, at least 1.

    Returns:
        Row numbers of the long and the short group; None if the split saves a tenth or less.
    """
    ordered, rows = lengths.sort(descending=True, stable=True)
    longer = torch.arange(1, len(rows), device=lengths.device)
    positions = longer * ordered[0] + (len(rows) - longer) * ordered[1:]
    if not len(positions) or positions.min() >= (1 - _WORTH) * len(rows) * ordered[0]:
        return None
    cut = int(positions.argmin()) + 1
    return rows[:cut], rows[cut:]


register_family(SentenceClassifier, "sentence_classifier", CLASSIFIER_SHAPES)
