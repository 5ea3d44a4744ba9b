"""Shapes to measure: dimensions of models, and of the batches that they train on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """An encoder-decoder and its training batches."""

    embed_dim: int  # model width C
    ffn_embed_dim: int  # width of the feed-forward block
    layers: int  # number of layers of the encoder, and of the decoder
    heads: int  # attention heads H
    vocabulary: int  # size V of the joint vocabulary
    batch_tokens: int  # most tokens in a batch, with padding (fairseq's ``--max-tokens``)
    mean_length: float  # mean length of the corpus's sentences, in tokens
    dropout: float = 0.1  # not of attention weights

    @property
    def layout(self) -> str:
        """Description of the layers."""
        return f"{self.layers}+{self.layers} layers"

    def options(self) -> dict:
        """Options of fairseq's ``transformer`` and of every model derived from it."""
        return {
            **self._stack("encoder"),
            **self._stack("decoder"),
            "share_all_embeddings": True,
            "share_decoder_input_output_embed": True,
        }

    def _stack(self, side: str) -> dict:
        return {
            f"{side}_embed_dim": self.embed_dim,
            f"{side}_ffn_embed_dim": self.ffn_embed_dim,
            f"{side}_layers": self.layers,
            f"{side}_attention_heads": self.heads,
            "dropout": self.dropout,
            "attention_dropout": 0.0,
        }


@dataclass(frozen=True)
class LanguageModelShape(Shape):
    """A decoder and its training blocks; ``mean_length`` is the length of a block."""

    cutoffs: str = ""  # of adaptive input and softmax; empty: shared embeddings, softmax

    @property
    def layout(self) -> str:
        """Description of the layers."""
        return f"{self.layers} decoder layers"

    def options(self) -> dict:
        """Options of fairseq's ``transformer_lm`` and of every model derived from it."""
        options = {
            **self._stack("decoder"),
            "decoder_input_dim": self.embed_dim,
            "decoder_output_dim": self.embed_dim,
            "decoder_normalize_before": True,
            "share_decoder_input_output_embed": not self.cutoffs,
            "tokens_per_sample": int(self.mean_length),
            "max_target_positions": int(self.mean_length),
            # fairseq's commands set the two below from other parts of the configuration.
            "add_bos_token": False,
            "tpu": False,
        }
        if self.cutoffs:
            options |= {
                "adaptive_input": True,
                "adaptive_input_cutoff": self.cutoffs,
                "adaptive_softmax_cutoff": self.cutoffs,
                "tie_adaptive_weights": True,
                "tie_adaptive_proj": True,
                "no_decoder_final_norm": True,
            }
        return options


SHAPES = {
    "tiny": Shape(128, 256, 2, 4, vocabulary=1_000, batch_tokens=1000, mean_length=15),
    "small": Shape(256, 512, 3, 4, vocabulary=8_000, batch_tokens=2000, mean_length=20),
    # As in the recipes multi30k_small and, with size=base, wmt14_en_de; base without dropout of
    # attention weights and activations.
    "multi30k-small": Shape(128, 256, 4, 4, vocabulary=8_000, batch_tokens=2048, mean_length=15),
    "base": Shape(512, 2048, 6, 8, vocabulary=32_000, batch_tokens=4096, mean_length=27),
    # Language models, as in the recipes ptb (Yun et al. 2021, section 6.1) and wiki103_small.
    "ptb": LanguageModelShape(
        256, 1024, 2, 4, vocabulary=10_000, batch_tokens=1024, mean_length=64, dropout=0.2
    ),
    "wiki103-small": LanguageModelShape(
        *(192, 768, 4, 8),
        vocabulary=10_008,
        batch_tokens=1024,
        mean_length=128,
        cutoffs="2000,5000",
    ),
}
