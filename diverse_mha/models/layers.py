"""Encoder and decoder layers, batch first, that hand up the states of their heads.

The constructors are fairseq's, so parameter names, shapes and initialisation are
those of a stock Transformer; the forward passes are ours. A layer returns a flat
tuple of tensors and None, because fairseq's activation checkpointing carries
gradients only through those: a ``HeadStates`` crosses it as its six tensors, and
the stack puts the record together again with the masks.
"""

from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from diverse_mha.attention import STATE_NAMES, Attended, HeadStates
from diverse_mha.models.seams import Seams

WIDTH = len(STATE_NAMES)


def flatten_states(attended: Attended) -> tuple[Tensor | None, ...]:
    """The tensors of a record, without the masks, in the order of ``STATE_NAMES``."""
    return tuple(attended.states[:WIDTH])


def wrap_layer(layer: nn.Module, cfg) -> nn.Module:
    """Apply activation checkpointing and FSDP to a layer, as the options say."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    # A checkpointed layer is always wrapped by FSDP, whatever its size.
    smallest = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=smallest)


def _normalized(norm: nn.Module, x: Tensor, here: bool) -> Tensor:
    return norm(x) if here else x


class _FeedForward:
    """The block that both kinds of layer end with."""

    def feed_forward(self, x: Tensor) -> Tensor:
        residual = x
        x = _normalized(self.final_layer_norm, x, self.normalize_before)
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        x = residual + self.dropout_module(self.fc2(x))
        return _normalized(self.final_layer_norm, x, not self.normalize_before)


class DiverseEncoderLayer(_FeedForward, TransformerEncoderLayerBase):
    """Self-attention and feed-forward block of the encoder.

    Args:
        cfg: fairseq's nested configuration.
        seams: the parts of the attention module.
        number: number of the layer, from 1.
    """

    def __init__(self, cfg, seams: Seams, number: int):
        self._seams, self._number = seams, number  # fairseq's constructor builds the attention
        super().__init__(cfg)

    def build_self_attention(self, embed_dim, cfg):
        """Build the layer's attention module; called by fairseq's constructor."""
        return self._seams.build(
            "encoder",
            self._number,
            embed_dim,
            cfg.encoder.attention_heads,
            dropout=cfg.attention_dropout,
            self_attention=True,
        )

    def forward(
        self,
        x: Tensor,
        bias: Tensor | None = None,
        previous_logits: Tensor | None = None,
        wanted: tuple[str, ...] = (),
    ) -> tuple[Tensor | None, ...]:
        """Run the layer.

        Args:
            x: (B, S, C).
            bias: additive mask that broadcasts to (B, H, S, S).
            previous_logits: (B, H, S, S) of the layer before, in a cascade.
            wanted: names of ``HeadStates`` to return.

        Returns:
            Output (B, S, C), the logits for the next layer or None, then the six
            tensors of the head states.
        """
        residual = x
        x = _normalized(self.self_attn_layer_norm, x, self.normalize_before)
        attended = self.self_attn.attend(
            x, x, bias=bias, previous_logits=previous_logits, wanted=wanted
        )
        x = residual + self.dropout_module(attended.output)
        x = _normalized(self.self_attn_layer_norm, x, not self.normalize_before)
        return (self.feed_forward(x), attended.logits, *flatten_states(attended))


class DiverseDecoderLayer(_FeedForward, TransformerDecoderLayerBase):
    """Self-attention, attention to the encoder, and feed-forward block.

    Args:
        cfg: fairseq's nested configuration.
        seams: the parts of the attention modules.
        number: number of the layer, from 1.
        no_encoder_attn: leave out the attention to the encoder.
    """

    def __init__(self, cfg, seams: Seams, number: int, no_encoder_attn: bool = False):
        self._seams, self._number = seams, number  # fairseq's constructor builds the attention
        super().__init__(cfg, no_encoder_attn)

    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        """Build the self-attention module; called by fairseq's constructor."""
        return self._seams.build(
            "decoder",
            self._number,
            embed_dim,
            cfg.decoder.attention_heads,
            dropout=cfg.attention_dropout,
            self_attention=True,
        )

    def build_encoder_attention(self, embed_dim, cfg):
        """Build the attention to the encoder; called by fairseq's constructor."""
        return self._seams.build(
            "cross",
            self._number,
            embed_dim,
            cfg.decoder.attention_heads,
            kdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        cross_bias: Tensor | None = None,
        self_bias: Tensor | None = None,
        causal: bool = False,
        self_padding_mask: Tensor | None = None,
        incremental_state: dict | None = None,
        previous_logits: Tensor | None = None,
        previous_cross_logits: Tensor | None = None,
        wanted: tuple[str, ...] = (),
        wanted_cross: tuple[str, ...] = (),
    ) -> tuple[Tensor | None, ...]:
        """Run the layer.

        Args:
            x: (B, T, C).
            encoder_out: (B, S, C), or None in a language model.
            encoder_padding_mask: (B, S) bool, True = padding.
            cross_bias: additive mask that broadcasts to (B, H, T, S).
            self_bias: additive mask that broadcasts to (B, H, T, T).
            causal: position t sees positions up to t; excludes ``self_bias``.
            self_padding_mask: (B, T) bool, True = padding; used in decoding.
            incremental_state: fairseq's decoding state, or None.
            previous_logits: (B, H, T, T) of the layer before, in a cascade.
            previous_cross_logits: (B, H, T, S), the same for the attention to the encoder.
            wanted: names of ``HeadStates`` to return of the self-attention.
            wanted_cross: the same for the attention to the encoder.

        Returns:
            Output (B, T, C); the logits for the next layer's self-attention and
            attention to the encoder, or None; the six tensors of the self-attention's
            states, and the six of the attention to the encoder.
        """
        residual = x
        x = _normalized(self.self_attn_layer_norm, x, self.normalize_before)
        own = self.self_attn.attend(
            x,
            x,
            bias=self_bias,
            causal=causal,
            key_padding_mask=self_padding_mask,
            incremental_state=incremental_state,
            previous_logits=previous_logits,
            wanted=wanted,
        )
        x = residual + self.dropout_module(own.output)
        x = _normalized(self.self_attn_layer_norm, x, not self.normalize_before)
        cross = Attended(x, HeadStates())
        if self.encoder_attn is not None and encoder_out is not None:
            residual = x
            x = _normalized(self.encoder_attn_layer_norm, x, self.normalize_before)
            cross = self.encoder_attn.attend(
                x,
                encoder_out,
                bias=cross_bias,
                key_padding_mask=encoder_padding_mask,
                incremental_state=incremental_state,
                static_kv=True,
                previous_logits=previous_cross_logits,
                wanted=wanted_cross,
            )
            x = residual + self.dropout_module(cross.output)
            x = _normalized(self.encoder_attn_layer_norm, x, not self.normalize_before)
        x = self.feed_forward(x)
        return (x, own.logits, cross.logits, *flatten_states(own), *flatten_states(cross))
