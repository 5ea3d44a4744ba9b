"""The shapes that are measured: models, and the batches they train on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """An encoder-decoder and its training batches.

    Attributes:
        embed_dim: model width C.
        ffn_embed_dim: width of the feed-forward block.
        layers: layers of the encoder, and of the decoder.
        heads: attention heads H.
        vocabulary: words of the joint vocabulary V.
        batch_tokens: most tokens in a batch, padding included (fairseq's ``--max-tokens``).
        mean_length: mean sentence length of the corpus, in tokens.
        dropout: dropout of the recipe; there is none on attention weights.
        share_all: source, target and output embeddings are one table; otherwise only the last two.
    """

    embed_dim: int
    ffn_embed_dim: int
    layers: int
    heads: int
    vocabulary: int
    batch_tokens: int
    mean_length: float
    dropout: float = 0.1
    share_all: bool = True

    def options(self, dropout: float | None = None) -> dict:
        """Options of fairseq's ``transformer`` and of every model derived from it.

        Args:
            dropout: to use instead of the recipe's.
        """
        sides = {
            "embed_dim": self.embed_dim,
            "ffn_embed_dim": self.ffn_embed_dim,
            "layers": self.layers,
            "attention_heads": self.heads,
        }
        options = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in sides.items()}
        options["dropout"] = self.dropout if dropout is None else dropout
        options["attention_dropout"] = 0.0
        options["share_all_embeddings"] = self.share_all
        options["share_decoder_input_output_embed"] = True
        return options


SHAPES = {
    "tiny": Shape(128, 256, 2, 4, vocabulary=1_000, batch_tokens=1000, mean_length=15),
    "small": Shape(256, 512, 3, 4, vocabulary=8_000, batch_tokens=2000, mean_length=20),
    # The recipes of configs/.
    "multi30k-small": Shape(256, 512, 3, 4, vocabulary=8_000, batch_tokens=1024, mean_length=15),
    "multi30k": Shape(
        256, 1024, 3, 8, vocabulary=8_000, batch_tokens=1024, mean_length=15, dropout=0.2
    ),
    "iwslt": Shape(
        *(512, 1024, 6, 4),
        vocabulary=10_000,
        batch_tokens=4096,
        mean_length=24,
        dropout=0.3,
        share_all=False,
    ),
    "base": Shape(512, 2048, 6, 8, vocabulary=32_000, batch_tokens=4096, mean_length=27),
    "big": Shape(
        1024, 4096, 6, 16, vocabulary=32_000, batch_tokens=3584, mean_length=27, dropout=0.3
    ),
}
